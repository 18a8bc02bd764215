"""Checks of a configuration: parts, fields and keys that do not exist, folders that a run would spoil.

fairseq prints its own 150 models, or all of its configuration, or a bare `KeyError`, and ignores keys without a reader.
"""

import contextlib
import dataclasses
import difflib
import os
import re
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from fairseq import models, tasks, utils
from fairseq.data import data_utils, encoders
from fairseq.dataclass import initialize
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)
from omegaconf.nodes import BooleanNode

from tupe.errors import UserError, one_line
from tupe.fairseq_patches.checkpoints import read_dictionary
from tupe.fairseq_patches.downloads import hub_or_cache
from tupe.fairseq_patches.patching import patches, replaced
from tupe.fairseq_patches.ranges import GROUPS, refuse_out_of_range, value_of
from tupe.fairseq_patches.scope import REGISTERED, chosen, config_in_scope, in_scope, raised_by_others
from tupe.files import check_file, check_replaceable
from tupe.systems import ELECTRA, ELECTRA_NAMES, MODEL_NAMES, SEQ2SEQ_NAMES

#: Part of a configuration -> name -> its fields.
_DATACLASSES: dict[str, Mapping[str, type]] = {
    "model": MODEL_DATACLASS_REGISTRY,
    "task": TASK_DATACLASS_REGISTRY,
    **{kind: registry["dataclass_registry"] for kind, registry in REGISTRIES.items()},
}
_REFUSALS = (AssertionError, ValueError, ArithmeticError, NotImplementedError)  # of values
_ADVICE = re.compile(r"\n +full_key: |\s(?:To append to|Either remove|See https:|Config search path:|Search path:)")
_NO_TEXT = re.compile(r"Cannot convert '(?:List|Dict)Config' to string: '(.*)'")
_AMBIGUOUS = re.compile(r"Ambiguous value for argument '(.*?)' 1\. ")
_FOLDERS = (("checkpoint", "save_dir"), ("common", "tensorboard_logdir"))


def nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def nearest_model(name: str) -> str:
    """Ask for the model that was meant: that of a system without a size, or the one of the nearest name."""
    known = (*MODEL_NAMES, *ELECTRA_NAMES, *SEQ2SEQ_NAMES)
    return f" (did you mean {name}_base?)" if f"{name}_base" in known else nearest(name, known)


def refuse_unknown(name: str) -> None:
    """Raise a `UserError` that lists our models, unless `name` is a model or architecture that fairseq knows."""
    if not any(name in registry for registry in REGISTERED["model"]):
        raise _unknown("model", name)


def _unknown(kind: str, name: str) -> UserError:
    if kind != "model":
        (known,) = REGISTERED[kind]
        return UserError(
            f"there is no {kind} '{name}'{nearest(name, known)}: change {kind}._name; "
            f"known are {', '.join(sorted(known))}"
        )
    translates = name.startswith("seq2seq")
    names = SEQ2SEQ_NAMES if translates else MODEL_NAMES
    systems, sizes = zip(*(known.rsplit("_", 1) for known in names))
    others = "" if translates else f", or {ELECTRA}SYSTEM_SIZE with a generator"
    return UserError(
        f"there is no model '{name}'{nearest_model(name)}: a name is SYSTEM_SIZE{others}, with "
        f"system {', '.join(dict.fromkeys(systems))} and size {', '.join(dict.fromkeys(sizes))}; see `tupe systems"
        f"{' --translation' * translates}`"
    )


def flags_are_booleans() -> contextlib.AbstractContextManager:
    """Let OmegaConf refuse a number for a boolean within the block: it takes every number but 0 for true."""
    convert = BooleanNode._validate_and_convert_impl

    def convert_flag(node: BooleanNode, value: Any) -> bool:
        if type(value) is int and value not in (0, 1):
            raise ValidationError("'$VALUE' is neither true nor false")
        return convert(node, value)

    return replaced(BooleanNode, "_validate_and_convert_impl", convert_flag)


def cannot_be(name: str, fields: Iterable[str], of: Any, error: OmegaConfBaseException) -> UserError:
    """Make the error for the first of `fields` that the dataclass `of` lacks, or else for the value of one."""
    known = ["_name", *(field.name for field in dataclasses.fields(of))]
    unknown = next((field for field in fields if field not in known), None)
    if unknown is not None:
        return UserError(f"{name} has no {unknown}{nearest(unknown, known)}: nothing would read it")
    reason = "it is a list, so write it in brackets, as [1]" if "is not a ListConfig" in str(error) else _plain(error)
    return UserError(f"{name} cannot have this {error.full_key}: {reason}")


def cannot_compose(error: Exception) -> str:
    """Return in one line why Hydra or OmegaConf makes no configuration, and of which key."""
    reason, cause = _plain(error), _plain(error.__cause__ or "")
    key = re.search(r"full_key: (\S+)", f"{error}\n{error.__cause__}")  # as OmegaConf writes it
    where = "" if key is None or key[1] in reason else f"{key[1]}: "
    return f"{where}{reason}{cause and f' ({cause})'}"


def several_values(override: str) -> str:
    """Say what Hydra reads in `key=a,b`, and how one text with commas is written."""
    key, _, value = override.partition("=")
    return f"{override} is several values, but a run has one: write \"{key}='{value}'\" if it is one text with commas"


def _plain(error: object) -> str:
    """Return a message of Hydra's or OmegaConf's in one line, without their advice and types."""
    reason = one_line(_ADVICE.split(str(error))[0]).rstrip(".")
    if ambiguous := _AMBIGUOUS.match(reason):
        return several_values(ambiguous[1])
    reason = re.sub(r"field '(\S+)' is not Optional", r"\1 has no default: give it a value", reason)
    return _NO_TEXT.sub(r"\1 is no text, so write it without brackets and in quotes, as '1,2'", reason)


def refuse_other_fields(name: str, fields: Mapping, of: type) -> None:
    """Raise a `UserError` for a field that the dataclass `of` lacks, or that cannot have its value."""
    try:
        with flags_are_booleans():
            OmegaConf.merge(OmegaConf.structured(of), fields)
    except OmegaConfBaseException as error:
        raise cannot_be(name, fields, of, error) from error


def _group_of(field: str, groups: Mapping[str, Any]) -> str | None:
    """Return the group that has a field of this name, the first of those that have it, or None."""
    kinds = {group: [of] for group, of in groups.items() if dataclasses.is_dataclass(of)}
    kinds |= {kind: [*_DATACLASSES[kind].values()] for kind in ("task", "model", *_DATACLASSES)}
    return next((kind for kind, of in kinds.items() if any(field in one.__dataclass_fields__ for one in of)), None)


def refuse_unknown_keys(cfg: Mapping) -> None:
    """Raise a `UserError` for a key that fairseq does not read (`+optimization.max_updates=10`) or of another type."""
    groups = {group.name: group.type for group in dataclasses.fields(FairseqConfig)}
    unknown = next((key for key in cfg if key not in (*groups, "job_logging_cfg")), None)  # this one fairseq adds
    if unknown is not None:
        group = _group_of(unknown, groups)
        near = f" (did you mean {group}.{unknown}?)" if group else nearest(unknown, groups)
        raise UserError(f"the configuration has no {unknown!r}{near}: nothing would read it")
    for group, of in groups.items():
        part, has_fields = cfg.get(group), dataclasses.is_dataclass(of)
        is_group = isinstance(part, (Mapping, Namespace))  # a Namespace of a part without a dataclass
        is_name = part is None or (isinstance(part, str) and part in _DATACLASSES.get(group, {}))  # optimizer=adam
        if group in cfg and not is_group and (has_fields or not is_name):
            raise UserError(f"{group} is {part!s:.40}, but is a group: set its fields, as {group}.KEY=VALUE")
        if has_fields and group in cfg:
            refuse_other_fields(group, part, of)


def refuse_other_parts(cfg: Mapping) -> None:
    """Raise a `UserError` for a field that a named part, such as the task, lacks, or that cannot have its value."""
    for kind, known in _DATACLASSES.items():
        part = cfg.get(kind)
        if isinstance(part, Mapping) and part.get("_name") in known:
            refuse_other_fields(part["_name"], part, known[part["_name"]])


def refuse_unknown_names(
    given: Mapping[str, Any],
    where: str = "from_pretrained",
    named: tuple[str, ...] = (),
    groups: Collection[str] = GROUPS,
) -> None:
    """Raise a `UserError` for the first name that is of no field of a configuration, which fairseq ignores.

    Args:
        given: values by the names of fields, or by group those of its fields; None is a value that is not given.
        where: the option or function that took them, for the message.
        named: groups that may be given by their name alone, as `bpe`.
        groups: whose fields something reads.
    """
    of = [group.type for group in dataclasses.fields(FairseqConfig) if group.name in groups]
    of += [kind for group in groups for kind in _DATACLASSES.get(group, {}).values()]
    known = {field.name for kind in of if dataclasses.is_dataclass(kind) for field in dataclasses.fields(kind)}
    known |= {*groups}
    inner = (name for part in given.values() if isinstance(part, Mapping) for name in part)
    unknown = next((name for name in (*given, *inner) if name not in known), None)
    if unknown is not None:
        raise UserError(f"{where} has no {unknown}{nearest(unknown, known)}: nothing would read it")
    flat = next(
        (name for name, part in given.items() if name in {*groups} - {*named} and not isinstance(part, Mapping | None)),
        None,
    )
    if flat is not None:
        said = f"{where} has {flat!r}: {given[flat]!r:.60}, but {flat} is no field"
        raise UserError(f"{said}: give the fields that are meant, or leave it out.")


def explain(kind: str, cfg: Any, error: Exception) -> None:
    """Raise a `UserError` for an error while the part `kind` of a configuration was built, if it lacks something.

    What the code of others raised is not explained.
    """
    if raised_by_others(error):
        return
    name = getattr(cfg, "_name", kind)
    if str(error) == f"{kind} is required!":  # null under Hydra
        known = ", ".join(sorted(REGISTERED[kind][0]))
        flag = f"--{kind.replace('_', '-')}"
        raise UserError(f"no {kind} is given: set {flag} ({kind}._name) to one of {known}") from error
    if isinstance(error, (ConfigAttributeError, ConfigKeyError)):  # fairseq's older parts have flags and no dataclass
        raise UserError(
            f"the {kind} {name} needs a value of {error.key}, which has no default: under Hydra add "
            f"+{kind}.{error.key}=VALUE, else choose another {kind}"
        ) from error
    if isinstance(error, _REFUSALS) and not isinstance(error, UserError):
        known = dataclasses.fields(_DATACLASSES[kind][name]) if name in _DATACLASSES[kind] else ()
        given = ", ".join(f"{field.name} {value_of({kind: cfg}, f'{kind}.{field.name}')}" for field in known[1:])
        reason = one_line(error).rstrip(".")
        raise UserError(
            f"the {kind} {name} cannot have these values together{given and f' ({given:.300})'}"
            f"{reason and f': {reason}'}; change one"
        ) from error
    if isinstance(error, ImportError):
        raise UserError(f"the {kind} {name} needs a package: {one_line(error)}") from error


@patches(tasks, "setup_task", "cfg")
def known_task(original):
    """Explain data that are absent or damaged, in every run: the task is made before anything says whose run it is."""

    def setup_task(cfg, *args, **kwargs):
        name = getattr(cfg, "_name", None)
        data = getattr(cfg, "data", None)
        if not isinstance(data, (str, os.PathLike, NoneType)):
            raise UserError(f"the data of the task are {data!r:.60}, which is no path: give the folder of the data")
        for path in _dictionaries(data):
            check_file(path, "the command that prepared the data")  # fairseq would wait for ever for a pipe
        try:
            if name == "translation":
                _refuse_without_pair(cfg)
            return original(cfg, *args, **kwargs)
        except Exception as error:
            if isinstance(error, OSError) and name in ("masked_lm", "tupe_multilingual_masked_lm"):
                refuse_missing(cfg.data, error)
            if isinstance(error, OSError) and name == "translation" and error.filename:
                raise UserError(
                    f"there is no {error.filename}: give the folder of a translation's data, with a dictionary a "
                    "language, or a checkpoint that was trained on these"
                ) from error
            if isinstance(error, ValidationError):
                raise cannot_be(name, (), _DATACLASSES["task"][name], error) from error
            if not isinstance(error, (OSError, UserError)):
                for path in _dictionaries(data):  # a line, or bytes, that no dictionary has
                    read_dictionary(path, "", "copy it again, or prepare the data again")
            raise

    return setup_task


def _explained(kind: str) -> Callable:
    """Say which files or packages the `bpe` or `tokenizer` lacks; libraries raise what they like."""

    def around(original):
        def build(cfg, *args, **kwargs):
            try:
                if getattr(cfg, "_name", None) != "bert" or cfg.bpe_vocab_file:
                    return original(cfg, *args, **kwargs)
                with hub_or_cache("bert-base-cased" if cfg.bpe_cased else "bert-base-uncased"):
                    return original(cfg, *args, **kwargs)
            except Exception as error:
                if isinstance(error, UserError) or raised_by_others(error):
                    raise
                name = getattr(cfg, "_name", cfg)
                reason = f"{type(error).__name__}: {one_line(error).rstrip('.')}"
                if isinstance(error, MissingMandatoryValue):
                    reason = f"there is no {error.full_key}"
                raise UserError(
                    f"--{kind} {name} cannot be made ({reason:.200}): give the files that it needs, by the options of "
                    f"{name}, or choose another one."
                ) from error

        return build

    around.__qualname__ = f"explained_{kind}"
    return around


for _kind in ("bpe", "tokenizer"):
    patches(encoders, f"build_{_kind}", "cfg")(_explained(_kind))


def _dictionaries(data: Any) -> list[Path]:
    """List the dictionaries in the first folder of the data."""
    folder = Path(utils.split_paths(data)[0]) if isinstance(data, str) and data else None
    return [] if folder is None else [*folder.glob("dict*.txt"), *folder.glob("*/dict.txt")]


@patches(initialize, "add_defaults", "cfg")
def known_parts(original):
    """Training fills in defaults first, also under `fairseq-hydra-train`, which imports the plugin just before."""

    def add_defaults(cfg):
        for kind, registries in REGISTERED.items():
            part = cfg.get(kind)
            name = part if isinstance(part, str) else getattr(part, "_name", None)
            if name is not None and not any(name in registry for registry in registries):
                raise _unknown(kind, str(name))
            if name is None and (kind == "model" or part is not None) and kind in cfg and config_in_scope(cfg):
                listed = ", as `tupe systems` lists them" if kind == "model" else ""
                raise UserError(f"the configuration names no {kind}: set {kind}._name{listed}")
        whole = dataclasses.fields(FairseqConfig) if OmegaConf.get_type(cfg) is FairseqConfig else ()
        gone = next((group.name for group in whole if group.name not in cfg), None)
        if gone is not None and config_in_scope(cfg):
            raise UserError(f"the configuration has no {gone}, which fairseq reads: leave out ~{gone}")
        try:
            with flags_are_booleans() if config_in_scope(cfg) else contextlib.nullcontext():
                original(cfg)
        except OmegaConfBaseException:
            refuse_other_parts(cfg)
            raise
        if config_in_scope(cfg):
            refuse_out_of_range(cfg)

    return add_defaults


@patches(models, "build_model", "cfg task", only_for=lambda cfg, *_, **__: in_scope(chosen("model", cfg)))
def known_values(original):
    """Refuse values that `--model-overrides` or an argument of `from_pretrained` gives a checkpoint's configuration."""

    def build_model(cfg, *args, **kwargs):
        try:
            with flags_are_booleans():
                return original(cfg, *args, **kwargs)
        except ValidationError as error:
            raise cannot_be(cfg._name, (), _DATACLASSES["model"][cfg._name], error) from error

    return build_model


def _refuse_without_pair(cfg: Any) -> None:
    """Raise a `UserError` for a translation's data whose languages neither the task nor a file's name says."""
    if cfg.source_lang is not None and cfg.target_lang is not None:
        return
    folder = (utils.split_paths(cfg.data) if cfg.data else [""])[0]
    found = data_utils.infer_language_pair(folder)
    if None in found:
        raise UserError(
            f"{os.path.abspath(folder)} has no data of a translation, such as train.en-de.en.idx, whose name says the "
            "languages: give a folder that `tupe prepare-translation` wrote, or the languages with -s and -t "
            "(task.source_lang, task.target_lang)"
        )
    if cfg.source_lang not in (None, found[0]) or cfg.target_lang not in (None, found[1]):  # fairseq takes the found
        raise UserError(
            f"the data in {os.path.abspath(folder)} are {found[0]} to {found[1]}, and only one language is given, "
            f"{cfg.source_lang or cfg.target_lang}: give both, with -s and -t (task.source_lang, task.target_lang)"
        )


def refuse_missing(data: str, error: OSError | None = None) -> None:
    """Raise a `UserError` unless all folders of `data` are there, the first with a dictionary."""
    folders = utils.split_paths(data)
    for folder in folders:
        if not folder:
            raise UserError(f"the data are {data!r}, with a colon beside no folder: leave it out") from error
        if not os.path.isdir(folder):
            raise UserError(f"there is no data folder {os.path.abspath(folder)}: {how_to_make(folder)}") from error
    dictionary = os.path.join(folders[0], "dict.txt")
    if not os.path.isfile(dictionary):
        of_a_task = os.path.isdir(os.path.join(folders[0], "input0"))
        mending = "this is a task's folder: give a corpus" if of_a_task else how_to_make(folders[0])
        raise UserError(f"there is no dictionary {os.path.abspath(dictionary)}: {mending}") from error


def how_to_make(folder: str) -> str:
    return (
        "make it from text, one sentence a line, with `fairseq-preprocess --only-source --trainpref TRAIN.txt "
        f"--validpref VALID.txt --destdir {folder}`"
    )


def refuse_outputs(cfg: Any) -> None:
    """Raise a `UserError` if a run would write into prepared data, or append its log to a file that is no log."""
    for group, name in _FOLDERS:
        folder = value_of(cfg, f"{group}.{name}")
        if isinstance(folder, str) and folder:
            if _is_data(Path(folder)):
                raise UserError(f"{group}.{name} is {folder}, a folder of prepared data: name another folder.")
            place = Path(folder).absolute()
            there = next(path for path in (place, *place.parents) if os.path.exists(path))
            if not there.is_dir():
                raise UserError(f"{group}.{name} is {folder}, but {there} is no folder: name another one.")
    log = value_of(cfg, "common.log_file")
    if isinstance(log, str) and log:
        _refuse_log(Path(log), value_of(cfg, "task.data"))


def _refuse_log(log: Path, data: Any) -> None:
    if not log.parent.is_dir() or log.is_dir():
        raise UserError(f"common.log_file is {log}, which cannot be written: name a file in a folder that is there.")
    if log.suffix != ".log":  # a log of an earlier run goes on
        check_replaceable(log, [Path(folder) for folder in utils.split_paths(data)] if isinstance(data, str) else [])


def _is_data(folder: Path) -> bool:
    """Tell whether a folder holds binary data or its parts: languages, splits of questions, GLUE's fields."""
    parts = any(folder.glob("dict.txt")) or (folder / "input0").is_dir()
    return any(folder.glob("*.idx")) or (parts and any(folder.glob("*/*.idx")))
