"""What is left of a finished run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Union

from tupe.checkpoints.safe_load import safe_load
from tupe.errors import UserError
from tupe.files import write_json

PathLike = Union[str, Path]


def finetuning_result(run: PathLike) -> dict[str, Any]:
    """Metric, best epoch and settings of the fine-tuning run in the folder `run`, also written there as `result.json`.

    `metrics` has all of the very validation that was best, by development set (MNLI has two), if the run was logged as
    JSON (`common.log_format=json`); an epoch can have several.

    Raises:
        UserError: if there is no finished run.
    """
    best = Path(run) / "checkpoint_best.pt"
    if not best.is_file():
        raise UserError(f"{run} holds no finished fine-tuning: there is no {best.name}; look at {run}/hydra_train.log")
    state = safe_load(best)
    cfg, extra = state["cfg"], state["extra_state"]
    epoch = extra["train_iterator"]["epoch"] - (extra["train_iterator"]["iterations_in_epoch"] == 0)
    result = {
        "task": Path(cfg["task"]["data"]).name,
        "metric": cfg["checkpoint"]["best_checkpoint_metric"],
        "score": extra["best"],
        "epoch": epoch,
        "max_epoch": cfg["optimization"]["max_epoch"],
        "metrics": _metrics(Path(run) / "hydra_train.log", state["optimizer_history"][-1]["num_updates"]),
        "model": cfg["model"]["_name"],
        "lr": cfg["optimization"]["lr"][0],
        "seed": cfg["common"]["seed"],
        "data": cfg["task"]["data"],
        "pretrained": cfg["checkpoint"]["finetune_from_model"],
        "checkpoint": str(best),
    }
    write_json(Path(run) / "result.json", result)
    return result


_VALIDATION = re.compile(r"\[(valid\d*)\]\[INFO\] - (\{.*\})$", re.MULTILINE)


def _metrics(log: Path, update: int) -> dict[str, dict[str, float]]:
    """What was logged after an update, by development set; of a resumed run, the last time."""
    metrics = {}
    for subset, text in _VALIDATION.findall(log.read_text(encoding="utf-8")) if log.is_file() else ():
        record = json.loads(text)
        if record.get(f"{subset}_num_updates") == str(update):
            metrics[subset] = {
                name[len(subset) + 1 :]: float(value) for name, value in record.items() if name.startswith(subset + "_")
            }
    return metrics
