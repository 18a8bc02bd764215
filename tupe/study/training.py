"""A pre-training of the study: its settings, the command that does it, and its record."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path
from typing import Any, Optional

import torch
from omegaconf import OmegaConf

import tupe
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import LOG, TrainingLog, read_log
from tupe.analysis.heads import head_patterns
from tupe.analysis.length import TooLong, loss_by_position
from tupe.analysis.position import has_correlation, position_correlation
from tupe.data.corpus.manifest import DICTIONARY, Manifest
from tupe.errors import UserError
from tupe.files import check_file
from tupe.finetuning.settings import assignment
from tupe.study.design import ROBERTA, ROOT, Design, Run
from tupe.study.records import Pretraining, these_versions, this_host
from tupe.systems import SIZES

CONFIGS = ROOT / "configs/pretraining"

_SEARCH_VALIDATIONS = 4
#: Where a run is and what it keeps: its result does not depend on them.
_ASIDE = ("hydra", "checkpoint", "common.user_dir", "common.log_format", "common.log_interval", "dataset.num_workers")
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
#: Why a run ended, if its loss did not stay finite: `tupe.fairseq_mends.failures`, and fairseq's own words.
DIVERGED = re.compile(r"NaN or infinite|Nan/Inf|Minimum loss scale")


def updates(design: Design, run: Run) -> int:
    """How long a pre-training is."""
    return design.search.updates if run.part == "search" else design.updates


def checkpoint(design: Design, folder: Path, at: str) -> Optional[Path]:
    """The one at the `end` of the pre-training in a folder, or `mid`; None if it is not there."""
    name = "checkpoint_last.pt" if at == "end" else f"checkpoint_*_{design.mid}.pt"
    return next(folder.glob(name), None)


def overrides(design: Design, run: Run, lr: float) -> dict[str, Any]:
    """Key -> value over the configuration of the design, plus signs as Hydra wants them."""
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
        "common.log_interval": max(1, min(100, every // 4)),  # the record is made of the log, however short the run is
    }
    if run.part == "final":
        found["checkpoint.keep_interval_updates_pattern"] = design.mid
    if model == ROBERTA:
        fields = {f"+model.{name}": value for name, value in SIZES[design.model_size].items()}
        found |= {"model._name": ROBERTA, "criterion._name": "masked_lm", **fields}
    return found


def settings(design: Design, run: Run, lr: float, corpus: Path) -> dict[str, Any]:
    """All that the result of a pre-training depends on, as JSON has it."""
    cfg = OmegaConf.load(CONFIGS / f"{design.config}.yaml")
    for key, value in overrides(design, run, lr).items():
        OmegaConf.update(cfg, key.lstrip("+"), value, merge=False, force_add=True)
    of = OmegaConf.to_container(cfg)
    for key in (*_ASIDE, "task.data"):
        group, _, name = key.partition(".")
        (of.get(group) or {}).pop(name, None) if name else of.pop(group, None)
    checksums = Manifest.load(corpus).content.checksums
    data = {name: checksums[name] for name in (DICTIONARY, "train.bin", "valid.bin")}
    return {"run": str(run), "lr": lr, "updates": updates(design, run), "data": data, "pretraining": of}


def launch(
    design: Design, run: Run, lr: float, corpus: Path, folder: Path, gpu: bool
) -> tuple[list[str], dict[str, str]]:
    """The command and its environment: `scripts/pretrain.sh`, or fairseq's own command for fairseq's own model."""
    given = overrides(design, run, lr)
    model, batch = given.pop("model._name"), given.pop("dataset.batch_size", None)
    keys = [assignment(key, value) if isinstance(value, str) else f"{key}={value}" for key, value in given.items()]
    if design.model(run.system) != ROBERTA:
        environment = {"CONFIG": design.config, "MODEL": model, "GPUS": str(int(gpu)), "PROCESSES": "1"}
        if batch is not None:
            environment |= {"BATCH": str(batch), "BATCH_PER_GPU": str(batch)}
        script = ["bash", str(ROOT / "scripts/pretrain.sh"), str(corpus)]
        return [*script, *keys, f"checkpoint.save_dir={folder}"], environment
    paths = {"common.user_dir": Path(tupe.__file__).parent, "task.data": corpus, "checkpoint.save_dir": folder}
    keys += [*(assignment(key, path) for key, path in paths.items()), f"model._name={model}"]
    keys += [] if batch is None else [f"dataset.batch_size={batch}"]
    keys += ["distributed_training.distributed_world_size=1", *([] if gpu else ["common.cpu=true"])]
    start = f'. "{ROOT}/scripts/lib/command.sh"; for_cpu 1; exec fairseq-hydra-train "$@"'
    return ["bash", "-c", start, "study", "--config-dir", str(CONFIGS), "--config-name", design.config, *keys], {}


def log_of(folder: Path) -> Optional[TrainingLog]:
    """What a pre-training has logged until now; None before its first record."""
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
) -> Optional[Pretraining]:
    """What the run in `folder` gave; None if it has not reached its end and did not diverge."""
    log = log_of(folder)
    valid = log.valid if log else {}
    if not diverged and max(valid, default=0) < updates(design, run):
        return None
    check_file(folder / LOG, "training")
    found = _PARAMETERS.search((folder / LOG).read_text(encoding="utf-8", errors="replace"))
    return Pretraining(
        settings=of,
        lr=of["lr"],
        parameters=int(found[1].replace(",", "")) if found else 0,
        curve=tuple((update, values["loss"]) for update, values in sorted(valid.items())),
        accuracy=valid[max(valid)].get("accuracy") if valid else None,
        training_seconds=round(log.seconds, 1) if log else 0.0,
        processor_seconds=round(processor_seconds, 1),
        host=this_host(),
        versions=these_versions(),
        diverged=diverged,
        **(_measured(design, corpus, folder) if run.part == "final" and design.model(run.system) != ROBERTA else {}),
    )


def _measured(design: Design, corpus: Path, folder: Path) -> dict[str, Any]:
    """The loss at each position, at the lengths that the model has, and the patterns of its heads."""
    encoder = open_encoder(checkpoint(design, folder, "end"))
    losses, patterns = {}, Counter()
    if has_correlation(encoder.args):  # before a length beyond them
        found = position_correlation(encoder)
        patterns.update(pattern.name for pattern in head_patterns(found.values, found.reset))
    if torch.cuda.is_available():
        encoder.cuda()
    for length in design.lengths:
        with contextlib.suppress(TooLong):
            losses[str(length)] = tuple(loss_by_position(encoder, corpus, length).smooth(1)[1].round(4).tolist())
    return {"loss_by_position": losses, "heads": dict(patterns)}
