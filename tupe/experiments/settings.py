"""Read the settings of a fine-tuning: the files of `configs/finetuning` with `key=value` over them, as Hydra does."""

import enum
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairseq.dataclass.configs import FairseqConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tupe.checkpoints.load import open_checkpoint
from tupe.errors import UserError
from tupe.experiments.own import task_of
from tupe.models.config import TupeConfig
from tupe.systems import plain_name, system_fields
from tupe.user_dir import config_dir

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
    """Return `key=value` for Hydra's command line; text is quoted.

    Raises:
        UserError: for text that Hydra would take for something else, `${...}`.
    """
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, (bool, int, float)):
        return f"{key}={value}"
    text = str(value)
    if "${" in text:
        raise UserError(f"Hydra would replace the ${{...}} in {text!r}: use a name without.")
    escaped = re.sub(r"(\\*)('|$)", lambda end: end[1] * 2 + (end[2] and r"\'"), text)
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


def read_settings(task: str, overrides: list[str], data: Path = Path()) -> Settings:
    """Return the settings of a task, with `key=value` over them; `data` is, or contains, a user's own task.

    Raises:
        UserError: for an override that is not `key=value`, or has a wrong key or value.
    """
    row = task_of(task, data)
    config, overrides = row.config, last_of_each([*row.overrides, *overrides])
    family = config.partition("/")[0]
    files = [family, config]
    recipe = next((text for key, _, text in (o.partition("=") for o in reversed(overrides)) if key == "recipe"), None)
    if family == "glue":
        recipes = [path.stem for path in sorted(CONFIGS.glob("recipe/*.yaml"))]
        if recipe not in (None, *recipes):
            raise UserError(f"there is no recipe {recipe!r:.60}: the recipes are {', '.join(recipes)}.")
        files.append(f"recipe/{recipe or 'tupe'}")
    elif recipe is not None:
        raise UserError(f"{task} has no recipes: leave out recipe={recipe:.60}, and set its keys one by one.")
    cfg = OmegaConf.merge(*(OmegaConf.load(CONFIGS / f"{name}.yaml") for name in files))
    save_dir, left, others = "", [], {}
    if (recipe, task) in _EPOCHS:
        overrides = [f"optimization.max_epoch={_EPOCHS[recipe, task]}", *overrides]
    named = {group: set(fields) for group, fields in cfg.items() if group != "defaults"}
    named["model"].update(system_fields(TupeConfig))  # the overrides of the checkpoint name them
    for override in overrides:
        key, _, text = override.partition("=")
        if key.lstrip("+") == "checkpoint.save_dir":
            save_dir = text  # Hydra's quotes are not for it
            continue
        if key.lstrip("+") in ("task.data", "checkpoint.finetune_from_model", "model._name"):
            raise UserError(
                f"'{override:.200}' is no setting here: the checkpoint and the data that the command is given say it."
            )
        if override.startswith("~"):
            group, _, field = override[1:].partition(".")
            if field not in named.get(group, ()):  # Hydra would say it only once the training has begun
                raise UserError(f"'{override:.60}' removes no key of the configuration: leave it out, or set a value.")
        left.append(plus(override, named))
        key, value = _parse(override)
        if key.partition(".")[0] == "hydra":
            continue
        if key in named and not isinstance(value, dict):  # Hydra would look for a file of this name
            raise UserError(f"{key} is {value}, but is a group: set its fields, as {key}.KEY=VALUE")
        try:
            OmegaConf.update(cfg, key, value, merge=False)
        except (OmegaConfBaseException, ValueError, TypeError):
            others[key] = value
    everything = OmegaConf.to_container(cfg)
    of = result_settings(cfg, "checkpoint.save_dir", "checkpoint.finetune_from_model")
    _refuse_without_best(everything)
    return Settings({**of, **others}, save_dir, left)


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


def _refuse_without_best(cfg: dict[str, Any]) -> None:
    """Raise a `UserError` if a run would end without a checkpoint of its best epoch, or take the worst for it."""
    groups = ("checkpoint", "dataset", "optimization")
    whole = OmegaConf.merge(OmegaConf.structured(FairseqConfig), {name: cfg.get(name) or {} for name in groups})
    checkpoint, dataset, run = (whole[name] for name in groups)
    for key in ("dataset.disable_validation", "checkpoint.no_save"):
        if OmegaConf.select(whole, key):
            raise UserError(f"{key} is true, so that no epoch would be kept as the best: leave it out.")
    by_updates = run.max_update or dataset.validate_interval_updates or checkpoint.save_interval_updates
    for key in ("dataset.validate_interval", "checkpoint.save_interval"):
        every = OmegaConf.select(whole, key)
        if 0 < run.max_epoch < every and not by_updates:
            raise UserError(
                f"{key} is {every}, but the run has {run.max_epoch} epochs (optimization.max_epoch), so that none "
                "would be kept as the best: give a number up to that."
            )
    metric = checkpoint.best_checkpoint_metric
    if metric in ("loss", "ppl") and checkpoint.maximize_best_checkpoint_metric:
        raise UserError(
            f"checkpoint.best_checkpoint_metric is {metric}, whose greatest value would be taken for the best: set "
            "checkpoint.maximize_best_checkpoint_metric=false too, or give another metric."
        )


def _parse(override: str) -> tuple[str, Any]:
    """Return key and value of an override; the value of `~key` is None."""
    try:
        parsed = OverridesParser.create().parse_override(override)
    except HydraException as error:
        reason = " ".join(str(error).split())
        raise UserError(f"'{override}' is no key=value that Hydra reads: {reason}") from None
    if parsed.is_sweep_override():
        raise UserError(f"{override} is several values, but a run has one.")
    return parsed.key_or_group, None if parsed.is_delete() else parsed.value()


def model_overrides(checkpoint: str | Path) -> list[str]:
    """Return Hydra overrides with which `configs/finetuning/glue.yaml` builds the model in `checkpoint`.

    For a generator and a discriminator, this is the model of their system, which loads the discriminator.
    Every field of the system is among them, so that a later `model.FIELD=VALUE` overrides it. Values from the file are
    checked and quoted, so that they can set nothing else.

    Raises:
        UserError: if the file cannot be read, or holds no model of this plugin.
    """
    return overrides_for(open_checkpoint(checkpoint).config)


def overrides_for(config: TupeConfig) -> list[str]:
    """Like `model_overrides`, for a configuration that is already loaded."""
    fields = [assignment(f"+model.{name}", getattr(config, name)) for name in system_fields(TupeConfig)]
    name = assignment("model._name", plain_name(config._name))
    return [name, *fields, assignment("task.max_positions", config.max_positions)]
