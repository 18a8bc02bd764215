"""What is left of a finished run."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Callable, Optional, Union

from tupe.checkpoints.safe_load import safe_load
from tupe.errors import UserError
from tupe.files import typed, write
from tupe.finetuning.runs import RESULT, Result, result

PathLike = Union[str, Path]
Metrics = dict[str, dict[str, Optional[float]]]


def finetuning_result(run: PathLike, evaluate: Optional[Callable[[Path], Metrics]] = None, model: str = "") -> Result:
    """Metric, best epoch and settings of the fine-tuning run in the folder `run`, also written there as `result.json`.

    `metrics` has all metrics of the best validation (an epoch can have several), by development set (MNLI has two), if
    the run was logged as JSON (`common.log_format=json`).

    Args:
        run: the folder.
        evaluate: tests the best checkpoint; its metrics join those. Without it, earlier ones stay.
        model: what it is called, as `electra_tupe_base` of a discriminator; by default as before, or as the checkpoint.

    Raises:
        UserError: if there is no finished run.
    """
    best = Path(run) / "checkpoint_best.pt"
    if not best.is_file():
        raise UserError(f"{run} holds no finished fine-tuning: there is no {best.name}; look at {run}/hydra_train.log.")
    state = safe_load(best)

    def at(place: str, kind: type) -> Any:
        value: Any = state
        for name in place.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return typed(kind, value, f"{best}: {place}", "fine-tuning", "train anew in another folder")

    epoch = at("extra_state.train_iterator.epoch", int)
    epoch -= at("extra_state.train_iterator.iterations_in_epoch", int) == 0
    before = result(Path(run))
    tested = {name: values for name, values in (before.metrics if before else {}).items() if "/" in name}
    tested = evaluate(best) if evaluate else tested
    update = at("optimizer_history", list[dict[str, Any]])[-1:]
    found = Result(
        task=Path(at("cfg.task.data", str)).name,
        metric=at("cfg.checkpoint.best_checkpoint_metric", str),
        score=at("extra_state.best", float),
        epoch=epoch,
        max_epoch=at("cfg.optimization.max_epoch", int),
        metrics={**_metrics(Path(run) / "hydra_train.log", update[0].get("num_updates") if update else None), **tested},
        model=model or (before.model if before else "") or at("cfg.model._name", str),
        lr=(at("cfg.optimization.lr", list[float]) or [math.nan])[0],
        seed=at("cfg.common.seed", int),
        data=at("cfg.task.data", str),
        pretrained=at("cfg.checkpoint.finetune_from_model", Optional[str]),
        checkpoint=str(best),
    )
    write(Path(run) / RESULT, found)
    return found


_VALIDATION = re.compile(r"\[(valid\d*)\]\[INFO\] - (\{.*\})$", re.MULTILINE)


def _metrics(log: Path, update: Optional[int]) -> dict[str, dict[str, Optional[float]]]:
    """What was logged after an update, by development set; of a resumed run, the last time."""
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
