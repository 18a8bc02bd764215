"""Fine-tune a checkpoint on one task: run `fairseq-hydra-train` with `configs/finetuning`, and write the result."""

import json
import logging
import math
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq.dataclass.initialize import hydra_init
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from tupe.checkpoints.load import open_checkpoint, write_state
from tupe.finetune.benchmarks import TESTS, settings
from tupe.finetune.predict import predict
from tupe.finetune.runs import RESULT, Result, identity, quoted, result
from tupe.util import config_dir, run_folder, sha256, user_dir, visible_gpus, write_json

_VALIDATION = re.compile(r"\[(valid\d*)\]\[INFO\] - (\{[^{}]*\})$", re.MULTILINE)


def finetune(task: str, checkpoint: Path, data: Path, overrides: Sequence[str] = ()) -> str:
    """Fine-tune a checkpoint on one task with the papers' settings.

    The command prints the `fairseq-hydra-train` command that it runs in this process. The same command resumes an
    interrupted run, and a finished run is kept.

    tupe finetune CoLA checkpoints/tupe_a_base/checkpoint_last.pt data/glue optimization.lr=[2e-5]

    Args:
        task: Task of GLUE, XNLI, SQuAD, TyDiQA, or one of your own.
        checkpoint: Checkpoint of this plugin.
        data: Prepared task, or the folder that contains it.
        overrides: Overrides of the configuration, `key=value` of `configs/finetuning`.

    Returns:
        The result, and the folder of the run, with `result.json`.

    Raises:
        UserError: the folder has a run of another checkpoint, other data or other settings.
    """
    data = data / task if (data / task).is_dir() else data
    configs = str(config_dir("finetuning"))
    name, keys = arguments(task, checkpoint, data, overrides)
    hydra_init(name)
    with initialize_config_dir(configs, version_base="1.1"):
        cfg = compose(name, keys)
    folder = Path(cfg.checkpoint.save_dir)
    best = folder / "checkpoint_best.pt"
    given = sorted(override for override in overrides if "checkpoint.save_dir=" not in override)
    inputs = {"task": task, "checkpoint": sha256(checkpoint), "data": identity(data), "overrides": given}
    with run_folder(folder, inputs):
        if not (folder / RESULT).is_file():
            train("--config-dir", configs, "--config-name", name, *keys)
            opened = open_checkpoint(best)
            found = validation(folder / "hydra_train.log", opened.updates, task, cfg)
            found.metrics.update(test(folder, [data.parent / name for name in TESTS.get(task, ())]))
            write_json(folder / RESULT, found._asdict())
            (folder / "checkpoint_last.pt").unlink(missing_ok=True)  # only unfinished runs need it and the optimizer
            write_state(best, {**opened.state, "last_optimizer_state": None}, overwrite=True)
    return f"{task}: {result(folder)}, in {folder}"


def arguments(task: str, checkpoint: Path, data: Path, overrides: Sequence[str]) -> tuple[str, list[str]]:
    """Return the configuration's name and its overrides; a later one replaces an earlier one of the same key."""
    name, chosen = settings(task, data, overrides)
    folder = f"runs/finetuning/{checkpoint.absolute().parent.name}-{checkpoint.stem}/{task}"
    return name, [
        *chosen,
        f"common.user_dir={quoted(user_dir())}",
        f"model.pretrained={quoted(checkpoint)}",
        f"task.data={quoted(data)}",
        f"checkpoint.save_dir={quoted(folder + '/lr_${optimization.lr[0]}/seed_${common.seed}')}",
        *([] if visible_gpus() else ["common.cpu=true", "common.bf16=false"]),
        *overrides,
    ]


def train(*command: str) -> None:
    """Print a `fairseq-hydra-train` command, and run it in this process."""
    from fairseq_cli.hydra_train import cli_main

    sys.argv = ["fairseq-hydra-train", *command]
    print(shlex.join(sys.argv), "# the log has classification losses in bits (nats / ln 2)", sep="\n", flush=True)
    logging.disable(logging.NOTSET)
    cli_main()


def test(folder: Path, tasks: list[Path]) -> dict[str, dict[str, float]]:
    """Predict the test sets of all languages that are prepared in `tasks` with the best checkpoint of a run.

    Returns:
        The metrics in percent by task and test set, such as `XQuAD/test-de`, except where the answers are secret.
    """
    out, found = folder / "predictions", {}
    shutil.rmtree(out, ignore_errors=True)  # left by an interrupted test
    for data in tasks:
        if any(data.glob("test-*/")) or (data / "input0").is_dir():
            scores = predict(folder / "checkpoint_best.pt", data, out / data.name)
            found.update({f"{data.name}/{path.stem}": values for path, values in scores.items() if values})
    return found


def validation(log: Path, updates: int, task: str, cfg: DictConfig) -> Result:
    """Return the metrics of the best checkpoint, which has `updates` updates, from the log of its run.

    An update's last record counts, because a resumed run repeats some. fairseq may validate more often than it saves.
    """
    metric, found = cfg.checkpoint.best_checkpoint_metric, {}  # development set -> its metrics
    for subset, text in _VALIDATION.findall(log.read_text(encoding="utf-8", errors="replace")):
        record = {name.removeprefix(f"{subset}_"): float(value) for name, value in json.loads(text).items()}
        if record["num_updates"] == updates:
            found[subset] = {name: value if math.isfinite(value) else None for name, value in record.items()}
    score, epoch = (found["valid"][name] for name in (metric, "epoch"))
    score = score if cfg.checkpoint.maximize_best_checkpoint_metric else -score
    return Result(score, found, task, metric, int(epoch), float(cfg.optimization.lr[0]), cfg.common.seed)
