"""Names that do not exist: fairseq prints its own 150 models, or all of its configuration, or a bare `KeyError`."""

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairseq import criterions, models, optim, options, registry, tasks
from fairseq.dataclass import utils as dataclass_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.optim import lr_scheduler
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from tupe.errors import UserError
from tupe.fairseq_patches.patching import patches
from tupe.fairseq_patches.scope import before_training
from tupe.systems import ELECTRA, ELECTRA_NAMES, MODEL_NAMES, SEQ2SEQ_NAMES


def nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def refuse_unknown(name: str) -> None:
    """Raises a `UserError` that lists our models, unless `name` is a model or architecture that fairseq knows."""
    if name in ARCH_MODEL_REGISTRY or name in MODEL_REGISTRY:
        return
    names = SEQ2SEQ_NAMES if name.startswith("seq2seq") else MODEL_NAMES
    systems, sizes = zip(*(known.rsplit("_", 1) for known in names))
    raise UserError(
        f"there is no model '{name}'{nearest(name, (*names, *ELECTRA_NAMES))}: a name is SYSTEM_SIZE, or "
        f"{ELECTRA}SYSTEM_SIZE with a generator, with system {', '.join(dict.fromkeys(systems))} and size "
        f"{', '.join(dict.fromkeys(sizes))}; see `tupe systems`"
    )


@patches(options, "parse_args_and_arch", "parser input_args")
def known_architecture(original):
    """`--arch` with a name that the parser refuses, no `--task` where there is no default, as in validation, and what
    the parser takes although Hydra cannot make it.
    """

    def parse_args_and_arch(parser, *args, **kwargs):
        refuse, refused = parser.error, "argument --arch/-a: invalid choice: '"

        def error(message):
            if message.startswith(refused):
                refuse_unknown(message[len(refused) :].partition("'")[0])
            refuse(message)

        parser.error = error
        try:
            parsed = original(parser, *args, **kwargs)
            _refuse_without_settings(parsed[0] if isinstance(parsed, tuple) else parsed)
            return parsed
        except KeyError as missing:
            if missing.args == (None,):
                raise UserError("no task is given: set --task, as the checkpoint was trained (masked_lm).") from missing
            raise
        finally:
            vars(parser).pop("error", None)  # fairseq calls the function within itself

    return parse_args_and_arch


def _refuse_without_settings(parsed: Any) -> None:
    for kind in ("bpe", "tokenizer", "scoring"):
        name, settings = getattr(parsed, kind, None), REGISTRIES[kind]["dataclass_registry"]
        if name is not None and name not in settings:
            raise UserError(f"--{kind} {name} has no settings in fairseq: choose one of {', '.join(sorted(settings))}.")


@patches(models, "build_model", "cfg task")
def known_model(original):
    """Hydra's `model._name` with a name that does not exist."""

    def build_model(cfg, *args, **kwargs):
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
        try:
            return original(cfg, *args, **kwargs)
        except Exception:
            if isinstance(name, str):
                refuse_unknown(name)
            raise

    return build_model


def cannot_be(name: str, fields: Iterable[str], of: Any, error: OmegaConfBaseException) -> UserError:
    """The sentence for the first of `fields` that the dataclass `of` the name lacks, or for the value of one."""
    known = ["_name", *(field.name for field in dataclasses.fields(of))]
    unknown = next((field for field in fields if field not in known), None)
    if unknown is not None:
        return UserError(f"{name} has no {unknown}{nearest(unknown, known)}: nothing would read it")
    return UserError(f"{name} cannot have this {error.full_key}: {str(error).splitlines()[0]}")


def known_fields(original):
    """Fields and values that a model, a task, a criterion or an optimizer does not have."""

    def merge_with_parent(dc, cfg, *args, **kwargs):
        try:
            return original(dc, cfg, *args, **kwargs)
        except OmegaConfBaseException as error:
            raise cannot_be(getattr(cfg, "_name", None), cfg, dc, error) from error

    return merge_with_parent


for _module in (dataclass_utils, models, tasks, registry):
    patches(_module, "merge_with_parent", "dc cfg")(known_fields)


def refuse_unknown_keys(cfg: Mapping) -> None:
    """Raise a `UserError` for a key that fairseq does not read (`+optimization.max_updates=10`) or of another type."""
    groups = [group.name for group in dataclasses.fields(FairseqConfig)]
    unknown = next((key for key in cfg if key not in (*groups, "job_logging_cfg")), None)  # this one fairseq adds
    if unknown is not None:
        raise UserError(f"the configuration has no {unknown}{nearest(unknown, groups)}: nothing would read it")
    for group in dataclasses.fields(FairseqConfig):
        part = cfg.get(group.name)
        if dataclasses.is_dataclass(group.type) and part:
            try:
                OmegaConf.merge(OmegaConf.structured(group.type), part)
            except OmegaConfBaseException as error:
                raise cannot_be(group.name, part, group.type, error) from None


@before_training
def known_keys(cfg, task, model):
    """Keys that were added to the configuration."""
    refuse_unknown_keys(cfg)


def known(kind: str, registry: Mapping[str, type]) -> Callable:
    """Hydra's `KIND._name` with a name that does not exist, or whose settings are not there, at which fairseq fails."""

    def around(original):
        def build(cfg, *args, **kwargs):
            try:
                return original(cfg, *args, **kwargs)
            except Exception as error:
                name = getattr(cfg, "_name", None)
                if isinstance(name, str):
                    _explain(kind, name, registry, error)
                raise

        return build

    around.__qualname__ = f"known.{kind}"
    return around


def _explain(kind: str, name: str, registry: Mapping[str, type], error: Exception) -> None:
    if name not in registry:
        raise UserError(
            f"there is no {kind} '{name}'{nearest(name, registry)}: change {kind}._name; "
            f"known are {', '.join(sorted(registry))}"
        ) from error
    if isinstance(error, (ConfigAttributeError, ConfigKeyError)):  # fairseq's older parts have flags and no dataclass
        raise UserError(
            f"the {kind} {name} needs a value of {error.key}, which has no default under Hydra: add "
            f"+{kind}.{error.key}=VALUE, or use fairseq-train"
        ) from error
    if isinstance(error, ImportError):
        raise UserError(f"the {kind} {name} needs a package: {str(error).splitlines()[0]}") from error


patches(tasks, "setup_task", "cfg")(known("task", TASK_REGISTRY))
patches(criterions, "build_criterion", "cfg task")(known("criterion", REGISTRIES["criterion"]["registry"]))
patches(optim, "build_optimizer", "cfg params")(known("optimizer", REGISTRIES["optimizer"]["registry"]))
patches(lr_scheduler, "build_lr_scheduler", "cfg optimizer")(
    known("lr_scheduler", REGISTRIES["lr_scheduler"]["registry"])
)
