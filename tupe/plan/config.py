"""Compose the configuration of a training as `fairseq-hydra-train` does, and refuse wrong keys and values."""

import os
import warnings
from collections.abc import Container, Mapping
from pathlib import Path

from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from tupe.errors import UserError
from tupe.fairseq_patches.configuration import cannot_compose, flags_are_booleans, refuse_unknown_keys
from tupe.files import read_text

#: Groups whose fields depend on their `_name`, so that Hydra knows only those that the file names.
_BY_NAME = ("model", "task", "criterion", "optimizer", "lr_scheduler")


def read_config(folder: Path, name: str, overrides: list[str]) -> DictConfig:
    """Compose a configuration as `fairseq-hydra-train` does, with fairseq's defaults.

    Raises:
        UserError: for a file that does not exist, or a key or value that is wrong.
    """
    if not (folder / f"{name}.yaml").is_file():  # Hydra would compose fairseq's empty schema
        raise UserError(f"there is no {folder / name}.yaml: give the folder and the name of a configuration.")
    read_text(folder / f"{name}.yaml", "a text editor")  # raises UserError for what is not UTF-8
    hydra_init(name)
    try:
        overrides = with_pluses(overrides, folder, name)
        with warnings.catch_warnings(), initialize_config_dir(config_dir=str(folder.resolve()), version_base="1.1"):
            warnings.simplefilter("ignore")  # Hydra deprecates a file with the name of fairseq's schema
            with flags_are_booleans():
                cfg = compose(config_name=name, overrides=overrides)
                add_defaults(cfg)
    except UserError:
        raise
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:  # ValueError: a group is a number
        for override in overrides:
            key = override.partition("=")[0]
            if not key.startswith("~") and not (key and os.path.isdir(folder / key)):  # a removal, and a group of files
                _refuse_override(override)
        raise UserError(f"the configuration {name} cannot be made: {cannot_compose(error)}") from None
    if OmegaConf.select(cfg, "task._name") is None:
        raise UserError(f"the configuration {name} names no task: set task._name, or take a whole configuration.")
    return cfg


def _refuse_override(override: str) -> None:
    """Raise a `UserError` for `GROUP.FIELD=VALUE` with a group, field or value that fairseq does not have."""
    key, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"'{override}' is no setting: give key=value, as optimization.max_update=1000.")
    if "." not in key and value in ("null", ""):
        said = f"{key} is a group of settings, which cannot be {value or 'empty'}"
        raise UserError(f"{said}: leave it out, or name one of the group.")
    try:
        asked = OmegaConf.to_container(OmegaConf.from_dotlist([f"{key.lstrip('+')}={value}"]))
    except (OmegaConfBaseException, YAMLError):
        raise UserError(f"{key} cannot be {value!r:.60}: quote it, or write a list as [1,2].") from None
    refuse_unknown_keys({group: part for group, part in asked.items() if group != "hydra"})


def with_pluses(arguments: list[str], folder: Path, name: str) -> list[str]:
    """Apply `plus` to each of the arguments that `last_of_each` leaves, for the configuration `name` in `folder`."""
    named = OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml"))  # in a DictConfig, a ??? counts as missing
    return [plus(argument, named) for argument in last_of_each(arguments)]


def last_of_each(arguments: list[str]) -> list[str]:
    """Leave out each `key=value` that a later one replaces: with pluses, Hydra refuses a key that is there already."""
    last = {argument.partition("=")[0].lstrip("+"): i for i, argument in enumerate(arguments)}
    return [a for i, a in enumerate(arguments) if "=" not in a or last[a.partition("=")[0].lstrip("+")] == i]


def plus(override: str, named: Mapping[str, Container[str]]) -> str:
    """Write `model.FIELD=VALUE` as Hydra wants it: with a plus where the file's group does not name the field."""
    key, equals, value = override.partition("=")
    bare = key.lstrip("+")
    group, _, field = bare.partition(".")
    if group not in _BY_NAME or not field or not equals or key.startswith("++"):
        return override
    return f"{'' if field.partition('.')[0] in (named.get(group) or ()) else '+'}{bare}={value}"
