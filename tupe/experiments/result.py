"""Collect a finished fine-tuning run into `result.json`."""

import json
import math
import re
from pathlib import Path
from typing import Any

from tupe.errors import UserError
from tupe.experiments.benchmarks import TASKS
from tupe.experiments.runs import PREDICTIONS, RESULT, Result, result
from tupe.files import typed, write
from tupe.inference.languages import evaluate
from tupe.safe_load import safe_load


def finetuning_result(run: Path, task: str = "", model: str = "") -> Result:
    """Write metric, best epoch and settings of the fine-tuning in `run` to `result.json` there, and return them.

    `metrics` has all metrics of the best validation (an epoch can have several), by development set (MNLI has two), if
    the run was logged as JSON (`common.log_format=json`).

    With a `task`, the best checkpoint is evaluated on its test sets; without, an earlier evaluation stays. Without a
    `model`, its name is that of an earlier result, or else of the checkpoint.

    Raises:
        UserError: if there is no finished run, or it is no fine-tuning, or one on another task.
    """
    best = run / "checkpoint_best.pt"
    if not run.is_dir():
        raise UserError(f"there is no folder {run}: give that of a fine-tuning.")
    if not best.is_file():
        raise UserError(f"{run} holds no finished fine-tuning: there is no {best.name}; look at {run}/hydra_train.log.")
    state = safe_load(best)

    def at(place: str, kind: type) -> Any:
        value: Any = state
        for name in place.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return typed(kind, value, f"{best}: {place}", "fine-tuning", "train anew in another folder")

    trained = at("cfg.task._name", str | None) or ""
    if trained.endswith(("masked_lm", "translation")):
        raise UserError(f"{run} is a training of the task {trained}, which is no fine-tuning: give the folder of one.")
    epoch = at("extra_state.train_iterator.epoch", int)
    epoch -= at("extra_state.train_iterator.iterations_in_epoch", int) == 0
    before = result(run)
    tested = {name: values for name, values in (before.metrics if before else {}).items() if "/" in name}
    data = Path(at("cfg.task.data", str))
    if task:
        known = [name for name, row in TASKS.items() if row.tests]
        if task not in known:
            raise UserError(f"{task} has no test sets in other languages: give one of {', '.join(known)}.")
        if data.name != task:
            raise UserError(f"{run} is a fine-tuning on {data.name}, not on {task}: give one on {task}.")
        tested = evaluate(best, data.parent, TASKS[task].tests, run / PREDICTIONS)
    update = at("optimizer_history", list[dict[str, Any]])[-1:]
    found = Result(
        task=data.name,
        metric=at("cfg.checkpoint.best_checkpoint_metric", str),
        score=at("extra_state.best", float),
        epoch=epoch,
        max_epoch=at("cfg.optimization.max_epoch", int),
        metrics={**_metrics(run / "hydra_train.log", update[0].get("num_updates") if update else None), **tested},
        model=model or (before.model if before else "") or at("cfg.model._name", str),
        lr=(at("cfg.optimization.lr", list[float]) or [math.nan])[0],
        seed=at("cfg.common.seed", int),
        data=str(data),
        pretrained=at("cfg.checkpoint.finetune_from_model", str | None),
        checkpoint=str(best),
    )
    write(run / RESULT, found)
    return found


_VALIDATION = re.compile(r"\[(valid\d*)\]\[INFO\] - (\{.*\})$", re.MULTILINE)


def _metrics(log: Path, update: int | None) -> dict[str, dict[str, float | None]]:
    """Return the metrics logged after `update` by development set; the later ones if this update was logged twice."""
    metrics = {}
    for subset, text in _VALIDATION.findall(log.read_text(encoding="utf-8", errors="replace")) if log.is_file() else ():
        try:
            record = json.loads(text)
            values = {name: float(value) for name, value in record.items() if name.startswith(f"{subset}_")}
        except (ValueError, TypeError):  # the beginning of a record, where the run was killed
            continue
        if record.get(f"{subset}_num_updates") == str(update):
            metrics[subset] = {
                name[len(subset) + 1 :]: value if math.isfinite(value) else None for name, value in values.items()
            }
    return metrics
