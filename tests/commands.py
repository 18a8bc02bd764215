"""How the tests run commands, as a user would, and read what they log."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


def run(*command, cwd=ROOT, check=True, **environment):
    """Runs an installed command as a user would; a test that expects failure passes `check=False`."""
    command = [str(part) for part in command]
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **environment}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if check and done.returncode:
        pytest.fail(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def train_log(output):
    """The records of fairseq's JSON log in `output`: `{"train_inner": [...], "train": [...], "valid": [...]}`."""
    records = {}
    line = re.compile(r'(train_inner|train|valid1?)(?: \||\]\[INFO\] -) (\{"(?:epoch|valid_loss)".*\})$', re.MULTILINE)
    for kind, record in line.findall(output):
        records.setdefault(kind, []).append(json.loads(record))
    return records


def train(corpus, save_dir, *options, check=True):
    """`fairseq-train` of a model on the made corpus, one record a training update."""
    return run(
        "fairseq-train", corpus, "--user-dir", "tupe", "--task", "masked_lm", "--criterion", "tupe_masked_lm",
        "--tokens-per-sample", 32, "--batch-size", 8, "--optimizer", "adam", "--lr", 0.003,
        "--lr-scheduler", "linear_decay", "--warmup-updates", 4, "--log-format", "json", "--log-interval", 1,
        "--save-dir", save_dir, "--cpu", "--num-workers", 0, *options, check=check,
    )  # fmt: skip


def hydra_train(corpus, save_dir, *overrides, check=True, config="base"):
    """The same by `fairseq-hydra-train`."""
    return run(
        "fairseq-hydra-train", "--config-dir", "configs/pretraining", "--config-name", config, f"task.data={corpus}",
        "task.tokens_per_sample=32", "dataset.batch_size=8", "optimization.update_freq=[1]", "optimization.lr=[0.003]",
        "lr_scheduler.warmup_updates=4", "common.log_format=json", "common.log_interval=1", "common.cpu=true",
        "common.fp16=false", "dataset.num_workers=0", f"checkpoint.save_dir={save_dir}", *overrides, check=check,
    )  # fmt: skip
