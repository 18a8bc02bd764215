"""How the tests run commands, as a user would, and read what they log."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tupe.cli.main import main

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
#: For PATH where a command must be a process of its own, as where its processor time is taken.
REAL = f"{BIN}{os.pathsep}{os.environ['PATH']}"


def environment(**more):
    """That of the tests, with the commands of this tree."""
    programs = forked.programs()
    path = (programs, ROOT / ".venv/bin", BIN, os.environ["PATH"])
    return {**os.environ, "PATH": os.pathsep.join(map(str, path)), "PYTHONPATH": str(ROOT), **more}


def run(*command, cwd=ROOT, check=True, **more):
    """Runs an installed command as a user would; a test that expects failure passes `check=False`."""
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=cwd, env=environment(**more), capture_output=True, text=True, timeout=600)
    if check and done.returncode:
        pytest.fail(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def tupe(*arguments):
    """The exit status of `tupe ARGUMENTS`, run in this process."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code


def finetune(task, checkpoint, data, *overrides):
    return run("tupe", "finetune", task, checkpoint, data, "dataset.num_workers=0", *overrides, check=False)


def train_log(output):
    """The records of fairseq's JSON log in `output`: `{"train_inner": [...], "train": [...], "valid": [...]}`."""
    records = {}
    line = re.compile(r'(train_inner|train|valid1?)(?: \||\]\[INFO\] -) (\{"(?:epoch|valid_loss)".*\})$', re.MULTILINE)
    for kind, record in line.findall(output):
        records.setdefault(kind, []).append(json.loads(record))
    return records


def train_command(corpus, save_dir, *options):
    """`fairseq-train` of a model on the made corpus, one record a training update."""
    return (
        "fairseq-train", corpus, "--user-dir", "tupe", "--task", "masked_lm", "--criterion", "tupe_masked_lm",
        "--tokens-per-sample", 32, "--batch-size", 8, "--optimizer", "adam", "--lr", 0.003,
        "--lr-scheduler", "linear_decay", "--warmup-updates", 4, "--log-format", "json", "--log-interval", 1,
        "--save-dir", save_dir, "--cpu", "--num-workers", 0, *options,
    )  # fmt: skip


def hydra_command(corpus, save_dir, *overrides, config="base"):
    """The same by `fairseq-hydra-train`."""
    return (
        "fairseq-hydra-train", "--config-dir", "configs/pretraining", "--config-name", config, f"task.data={corpus}",
        "task.tokens_per_sample=32", "dataset.batch_size=8", "optimization.update_freq=[1]", "optimization.lr=[0.003]",
        "lr_scheduler.warmup_updates=4", "common.log_format=json", "common.log_interval=1", "common.cpu=true",
        "common.bf16=false", "dataset.num_workers=0", f"checkpoint.save_dir={save_dir}", *overrides,
    )  # fmt: skip


def train(*arguments, check=True):
    return run(*train_command(*arguments), check=check)


def hydra_train(*arguments, check=True, config="base"):
    return run(*hydra_command(*arguments, config=config), check=check)
