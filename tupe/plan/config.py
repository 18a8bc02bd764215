"""Compose the configuration of a training as `fairseq-hydra-train` does."""

import warnings
from pathlib import Path

from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from tupe.models.config import fill


def read_config(folder: Path, name: str, overrides: list[str]) -> DictConfig:
    """Compose the configuration `name` of a folder with `overrides`, `key=value`, and all defaults."""
    hydra_init(name)
    with warnings.catch_warnings(), initialize_config_dir(config_dir=str(folder.resolve()), version_base="1.1"):
        warnings.simplefilter("ignore")  # Hydra deprecates a file with the name of fairseq's schema
        cfg = compose(config_name=name, overrides=overrides)
        add_defaults(cfg)
        fill(cfg.model, cfg.model._name)
    return cfg
