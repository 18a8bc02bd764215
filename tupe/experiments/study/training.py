"""Pre-train a system of the study: its settings, the command, and its record."""

import contextlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import LOG, TrainingLog, read_log
from tupe.analysis.heads import head_patterns
from tupe.analysis.length import LengthLoss, TooLong, loss_by_position
from tupe.analysis.position import has_correlation, position_correlation
from tupe.data.corpus.manifest import DICTIONARY, Manifest
from tupe.errors import UserError
from tupe.experiments.benchmarks import BENCHMARKS
from tupe.experiments.process import python_command
from tupe.experiments.settings import assignment, read_settings, result_settings
from tupe.experiments.study.design import ROBERTA, Design, Run
from tupe.experiments.study.records import Pretraining, this_machine
from tupe.files import check_file, read_json
from tupe.systems import SIZES
from tupe.user_dir import config_dir, user_dir

CONFIGS = config_dir("pretraining")

#: Name of the losses by length in the run's folder.
LENGTHS = "lengths.json"
#: Keys that a study itself sets.
_OURS = (
    *("model._name", "common.seed", "optimization.lr", "optimization.max_update", "task.data", "checkpoint.save_dir"),
    *("dataset.validate_interval_updates", "checkpoint.save_interval_updates", "common.log_interval"),
)
_SEARCH_VALIDATIONS = 4
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
#: Messages of a run whose loss was not finite, by `tupe.fairseq_patches.trainer` and by fairseq.
DIVERGED = re.compile(r"NaN or infinite|Nan/Inf|Minimum loss scale")


def updates(design: Design, run: Run) -> int:
    """Return the number of updates of a pre-training.

    The search of a row with short runs is as long as the longest of them. A short run of 0 updates does one at a rate
    of 0.
    """
    if run.part == "short":
        return max(1, int(run.at))
    if run.part == "search":
        return design.short[-1] if run.system in design.started else design.search.updates
    return design.updates


def checkpoint(design: Design, folder: Path, at: str) -> Path | None:
    """Return the checkpoint at the `end` of the pre-training in a folder, or at `mid`; None if it is not there."""
    name = "checkpoint_last.pt" if at == "end" else f"checkpoint_*_{design.mid}.pt"
    return next(folder.glob(name), None)


def overrides(design: Design, run: Run, lr: float) -> dict[str, Any]:
    """Return overrides (key -> value) of the design's configuration, with the plus signs that Hydra needs."""
    length, validations = updates(design, run), design.validations if run.part == "final" else _SEARCH_VALIDATIONS
    every = max(1, length // validations)
    system, model = design.systems[run.system], design.model(run.system)
    found = {
        "model._name": f"{model}_{design.model_size}",
        **design.settings,
        **system.settings,
        "common.seed": run.seed,
        "optimization.lr": [lr],
        "optimization.max_update": length,
        "dataset.validate_interval_updates": every,
        "checkpoint.save_interval_updates": every,
        "common.log_interval": max(1, min(100, every // 4)),  # the record is read from the log, also of a short run
    }
    if run.part == "final" and design.mid:
        found["checkpoint.keep_interval_updates_pattern"] = design.mid
    if model == ROBERTA:
        fields = {f"+model.{name}": value for name, value in SIZES[design.model_size].items()}
        found |= {"model._name": ROBERTA, "criterion._name": "masked_lm", **fields}
    return found


def check(design: Design) -> None:
    """Raise a `UserError` for a row, or a task of the fine-tuning, whose configuration cannot be."""
    if not (CONFIGS / f"{design.config}.yaml").is_file():
        raise UserError(f"there is no {CONFIGS / design.config}.yaml: give config a file of configs/pretraining.")
    settings_of = {"": design.settings, **{f" of {name}": row.settings for name, row in design.systems.items()}}
    for name, given in settings_of.items():
        ours = next((key for key in given if key.lstrip("+") in _OURS), None)
        if ours is not None:
            raise UserError(f"settings{name} have {ours}, which the study sets itself: leave it out.")
    for task in design.finetuning.tasks:
        if task not in (known := BENCHMARKS["glue"].tasks):
            raise UserError(f"finetuning.tasks has {task}: choose from {', '.join(known)}.")
        read_settings(task, list(design.finetuning.settings))


def _configuration(design: Design, given: dict[str, Any]) -> DictConfig:
    cfg = OmegaConf.load(CONFIGS / f"{design.config}.yaml")
    for key, value in given.items():
        OmegaConf.update(cfg, key.lstrip("+"), value, merge=False, force_add=True)
    return cfg


def settings(design: Design, run: Run, lr: float, corpus: Path) -> dict[str, Any]:
    """Return all that the result of a pre-training depends on, as JSON values."""
    cfg = _configuration(design, overrides(design, run, lr))
    checksums = Manifest.load(corpus).content.checksums
    data = {name: checksums[name] for name in (DICTIONARY, "train.bin", "valid.bin")}
    of = result_settings(cfg, "checkpoint")
    return {"run": str(run), "lr": lr, "updates": updates(design, run), "data": data, "pretraining": of}


def command(
    design: Design, run: Run, lr: float, corpus: Path, folder: Path, gpu: bool, start: Path | None = None
) -> list[str]:
    """Return the command of the pre-training: fairseq's own, started by `tupe plan` for a model of this plugin.

    `start` is a checkpoint with the initial weights.
    """
    given = {"common.user_dir": user_dir(), "task.data": corpus, "checkpoint.save_dir": folder}
    given |= {"distributed_training.distributed_world_size": 1}
    given |= {} if start is None else {"checkpoint.finetune_from_model": start}
    given |= {} if gpu else {"common.cpu": True, "common.bf16": False}
    given |= overrides(design, run, lr)
    if "dataset.batch_size" in given:  # it is the whole batch, so nothing is accumulated
        given.setdefault("optimization.update_freq", [1])
    texts = (str, Path)
    keys = [assignment(key, value) if isinstance(value, texts) else f"{key}={value}" for key, value in given.items()]
    train = python_command("fairseq-hydra-train", "--config-dir", CONFIGS, "--config-name", design.config, *keys)
    if design.model(run.system) == ROBERTA:
        return train
    plan = ["plan", "--here", "--gpus", int(gpu), CONFIGS, design.config, *keys, "--start", *train]
    return python_command("tupe", *plan)


def log_of(folder: Path) -> TrainingLog | None:
    """Return the log of a pre-training; None before its first record."""
    try:
        return read_log(folder)
    except UserError:
        return None


def record(
    design: Design,
    run: Run,
    of: dict[str, Any],
    corpus: Path,
    folder: Path,
    processor_seconds: float,
    diverged: bool = False,
) -> Pretraining | None:
    """Return the record of the run in `folder`; None if it neither reached its end, with all measured, nor diverged."""
    log = log_of(folder)
    valid = log.valid if log else {}
    measured = is_measured(design, run)
    lacks_lengths = measured and design.masks and not (folder / LENGTHS).is_file()
    if not diverged and (lacks_lengths or max(valid, default=0) < updates(design, run)):
        return None
    check_file(folder / LOG, "training")
    found = _PARAMETERS.search((folder / LOG).read_text(encoding="utf-8", errors="replace"))
    return Pretraining(
        settings=of,
        lr=of["lr"],
        parameters=int(found[1].replace(",", "")) if found else 0,
        curve=tuple((update, values["loss"]) for update, values in sorted(valid.items())),
        accuracy=valid[max(valid)].get("accuracy") if valid else None,
        training_seconds=round(log.seconds + log.repeated_seconds, 1) if log else 0.0,
        processor_seconds=round(processor_seconds, 1),
        diverged=diverged,
        **this_machine(),
        **(_measured(design, corpus, folder) if measured else {}),
    )


def is_measured(design: Design, run: Run) -> bool:
    """Tell whether the losses by position and by length of a pre-training are part of its record."""
    return run.part == "final" and design.model(run.system) != ROBERTA


def length_command(design: Design, run: Run, of: dict[str, Any], corpus: Path, folder: Path) -> list[str]:
    """Return the command that measures the loss by length of the checkpoint at the end, for `_measured`."""
    lengths = sorted({of["pretraining"]["task"]["tokens_per_sample"], *design.lengths})
    lists = {"--lengths": lengths, "--extend": design.systems[run.system].evaluate}
    options = [word for name, values in lists.items() if values for word in (name, *values)]
    options += ["--masks", design.masks, "--data", corpus, "--json", folder / LENGTHS]
    return python_command("tupe", "loss-by-length", checkpoint(design, folder, "end"), *options)


def _measured(design: Design, corpus: Path, folder: Path) -> dict[str, Any]:
    """Measure the loss by position, at lengths that the model allows, and the patterns of its heads.

    The loss by length is read from what `length_command` wrote; it takes too long for the process of the study.
    """
    encoder = open_encoder(checkpoint(design, folder, "end"))
    losses, by_length, patterns = {}, {}, Counter()
    if has_correlation(encoder.args):  # before `loss_by_position` makes the encoder longer
        found = position_correlation(encoder)
        patterns.update(pattern.name for pattern in head_patterns(found.values, found.reset))
    if torch.cuda.is_available():
        encoder.cuda()
    for length in design.lengths:
        with contextlib.suppress(TooLong):
            losses[str(length)] = loss_by_position(encoder, corpus, length).rounded(1)
    if design.masks:
        (model,) = read_json(folder / LENGTHS, "tupe loss-by-length")["models"].values()
        for name, found in model["extensions"].items():
            by_length[name] = {length: _length_loss(**loss) for length, loss in found.items()}
    return {"loss_by_position": losses, "loss_by_length": by_length, "heads": dict(patterns)}


def _length_loss(verdict: str, by_position: list[float | None], **numbers: float) -> LengthLoss:
    return LengthLoss(**numbers, by_position=tuple(by_position))
