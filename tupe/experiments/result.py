"""Collect a finished fine-tuning run into `result.json`."""

import json
import math
import re
from dataclasses import asdict
from pathlib import Path

from tupe.experiments.benchmarks import TASKS
from tupe.experiments.runs import PREDICTIONS, RESULT, Result, result
from tupe.inference.languages import evaluate
from tupe.patches.safe_load import safe_load
from tupe.util import write_json


def finetuning_result(run: Path, task: str = "", model: str = "") -> Result:
    """Write metric, best epoch and settings of the fine-tuning in `run` to `result.json` there, and return them.

    `metrics` has all metrics of the best validation (an epoch can have several), by development set (MNLI has two), if
    the run was logged as JSON (`common.log_format=json`).

    With a `task`, the best checkpoint is evaluated on its test sets; without, an earlier evaluation stays. Without a
    `model`, its name is that of an earlier result, or else of the checkpoint.
    """
    best = run / "checkpoint_best.pt"
    state = safe_load(best)
    cfg, iterator = state["cfg"], state["extra_state"]["train_iterator"]
    before = result(run)
    tested = {name: values for name, values in (before.metrics if before else {}).items() if "/" in name}
    data = Path(cfg["task"]["data"])
    if task:
        tested = evaluate(best, data.parent, TASKS[task].tests, run / PREDICTIONS)
    update = state["optimizer_history"][-1].get("num_updates")
    found = Result(
        task=data.name,
        metric=cfg["checkpoint"]["best_checkpoint_metric"],
        score=state["extra_state"]["best"],
        epoch=iterator["epoch"] - (iterator["iterations_in_epoch"] == 0),
        max_epoch=cfg["optimization"]["max_epoch"],
        metrics={**_metrics(run / "hydra_train.log", update), **tested},
        model=model or (before.model if before else "") or cfg["model"]["_name"],
        lr=cfg["optimization"]["lr"][0],
        seed=cfg["common"]["seed"],
        data=str(data),
        pretrained=cfg["checkpoint"]["finetune_from_model"],
        checkpoint=str(best),
    )
    write_json(run / RESULT, asdict(found))
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
