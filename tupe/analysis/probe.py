"""Read what a short run measured: its sequences a second, its devices, and the used share of their peak."""

import re
import statistics
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from tupe.analysis.curves import LOG, record_of
from tupe.errors import UserError
from tupe.files import read_text
from tupe.models.config import CONFIGS
from tupe.plan.precision import HALVES
from tupe.plan.pretraining import MADE_BY, speed_of
from tupe.plan.probe import Probe

_CONFIG = Path(".hydra/config.yaml")  # as the scripts' configurations write it
_START = re.compile(r"training on (\d+) devices")
_GPU = re.compile(r" ; name = (\S.*?)\s*$")  # of each process


def read_probe(run: Path) -> Probe:
    """Read the folder of a run of scripts/pretrain.sh, which needs a few intervals of `common.log_interval` updates.

    Only the run's last start counts, without its first interval where there are others, because in that one kernels are
    compiled and caches filled. The median of the others ignores a validation or a checkpoint in one of them.

    Raises:
        UserError: if the log has no intervals, or if the folder has no configuration of a pre-training.
    """
    lines = read_text(run / LOG, MADE_BY).splitlines()
    start = max((number for number, line in enumerate(lines) if _START.search(line)), default=len(lines))
    records = [record for record in map(record_of, lines[start:]) if all(map(record.get, ("wps", "wpb", "bsz")))]
    if not records:
        raise UserError(
            f"{run / LOG} has no intervals with tokens a second (wps): train for more updates, or with a lower "
            "common.log_interval, by scripts/pretrain.sh."
        )
    records = records[1:] or records
    devices = int(_START.search(lines[start])[1])
    names = [found[1] for found in map(_GPU.search, lines[:start]) if found]
    cfg = _config(run)

    def median(values: list[float]) -> float:
        return statistics.median(values) / devices

    return Probe(
        name=str(run),
        made_of=speed_of(cfg),
        precision=next((half for half in reversed(HALVES) if cfg.common[half]), "float32"),
        devices=devices,
        gpu=None if cfg.common.cpu else names[-1] if names else "GPU",
        batch_size=cfg.dataset.batch_size,
        sequences=median([record["bsz"] * record["wps"] / record["wpb"] for record in records]),
        tokens=median([record["wps"] for record in records]),
        mfu=statistics.median(record.get("mfu", 0.0) for record in records) / 100 or None,
    )


def _config(run: Path) -> DictConfig:
    """Read the configuration that Hydra wrote, with the fields that the model has by default."""
    text = read_text(run / _CONFIG, MADE_BY)
    try:
        cfg = OmegaConf.create(text)
        cfg.model = OmegaConf.merge(OmegaConf.structured(CONFIGS[cfg.model._name]), cfg.model)
        speed_of(cfg)
        int(cfg.dataset.batch_size)
        bool(cfg.common.cpu)
        return cfg
    except (OmegaConfBaseException, YAMLError, AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{run / _CONFIG} is no configuration of a pre-training: give a run of {MADE_BY}.") from None
