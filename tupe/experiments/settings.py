"""Read the settings of a fine-tuning: the files of `configs/finetuning` with `key=value` over them, as Hydra does."""

import enum
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from tupe.experiments.benchmarks import task_of
from tupe.models.config import TupeConfig
from tupe.systems import system_fields
from tupe.util import config_dir

CONFIGS = config_dir("finetuning")
#: Groups whose fields depend on their `_name`, so that Hydra knows only those that the file names.
_BY_NAME = ("model", "task", "criterion", "optimizer", "lr_scheduler")
#: Epochs of a recipe on a task, where they differ from its file: ELECTRA, table 7.
_EPOCHS = {("electra", "RTE"): 10, ("electra", "STS-B"): 10}


def result_settings(cfg: DictConfig, *aside: str) -> dict[str, Any]:
    """Return the settings that a result depends on: all but paths, logging, workers, and the keys `aside`."""
    settings = OmegaConf.to_container(cfg)
    logs = ("common.log_format", "common.log_interval", "dataset.num_workers")
    for key in ("hydra", "defaults", "common.user_dir", "task.data", *logs, *aside):
        group, _, name = key.partition(".")
        part = settings.get(group) if name else settings
        if isinstance(part, dict):
            part.pop(name or group, None)
    return settings


def assignment(key: str, value: str | int | float | Path) -> str:
    """Return `key=value` for Hydra's command line; text is quoted."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, (bool, int, float)):
        return f"{key}={value}"
    escaped = re.sub(r"(\\*)('|$)", lambda end: end[1] * 2 + (end[2] and r"\'"), str(value))
    return f"{key}='{escaped}'"


class Settings(NamedTuple):
    """The settings from the files and the command line."""

    of: dict[str, Any]  # all that a result depends on, except model, data and machine
    save_dir: str  # folder that the user chose for the run, or ""
    overrides: list[str]  # as given, without `save_dir`

    @property
    def lr(self) -> float:
        return float(self.of["optimization"]["lr"][0])

    @property
    def seed(self) -> int:
        return int(self.of["common"]["seed"])

    @property
    def epochs(self) -> int:
        return int(self.of["optimization"]["max_epoch"])

    def flat(self) -> dict[str, Any]:
        """Return the settings by names such as `optimization.lr`."""
        groups = {group: part if isinstance(part, dict) else {"": part} for group, part in self.of.items()}
        return {f"{group}.{name}": value for group, part in groups.items() for name, value in part.items()}


def read_settings(task: str, overrides: list[str], data: Path = Path()) -> Settings:
    """Return the settings of a task, with `key=value` over them; `data` is, or contains, a task of one's own."""
    row = task_of(task, data)
    overrides = last_of_each([*row.overrides, *overrides])
    recipe = next((text for key, _, text in (o.partition("=") for o in reversed(overrides)) if key == "recipe"), "tupe")
    if (recipe, task) in _EPOCHS:
        overrides = last_of_each([f"optimization.max_epoch={_EPOCHS[recipe, task]}", *overrides])
    family = row.config.partition("/")[0]
    files = [family, row.config, *([f"recipe/{recipe}"] if family == "glue" else [])]
    cfg = OmegaConf.merge(*(OmegaConf.load(CONFIGS / f"{name}.yaml") for name in files))
    named = {group: set(fields) for group, fields in cfg.items() if group != "defaults"}
    named["model"].update(system_fields(TupeConfig))  # the overrides of the checkpoint name them
    save_dir, left = "", []
    for override in overrides:
        key, _, text = override.partition("=")
        if key.lstrip("+") == "checkpoint.save_dir":
            save_dir = text  # Hydra's quotes are not for it
            continue
        left.append(plus(override, named))
        parsed = OverridesParser.create().parse_override(override)
        if not parsed.key_or_group.startswith("hydra"):
            value = None if parsed.is_delete() else parsed.value()
            OmegaConf.update(cfg, parsed.key_or_group, value, merge=False)
    return Settings(result_settings(cfg, "checkpoint.save_dir", "checkpoint.finetune_from_model"), save_dir, left)


def last_of_each(arguments: list[str]) -> list[str]:
    """Leave out each `key=value` that a later one replaces: with pluses, Hydra refuses a key that is there already."""
    last = {argument.partition("=")[0].lstrip("+"): i for i, argument in enumerate(arguments)}
    return [a for i, a in enumerate(arguments) if "=" not in a or last[a.partition("=")[0].lstrip("+")] == i]


def plus(override: str, named: Mapping[str, Container[str]]) -> str:
    """Write `model.FIELD=VALUE` as Hydra reads it: with a plus where the file's group does not name the field."""
    key, equals, value = override.partition("=")
    bare = key.lstrip("+")
    group, _, field = bare.partition(".")
    if group not in _BY_NAME or not field or not equals or key.startswith("++"):
        return override
    return f"{'' if field.partition('.')[0] in (named.get(group) or ()) else '+'}{bare}={value}"
