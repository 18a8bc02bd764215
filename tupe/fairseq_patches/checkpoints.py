"""Checkpoints: read without running code, refused where they do not fit a run, written whole or not at all."""

import collections
import contextlib
import errno
import hashlib
import io
import os
import shutil
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, distributed_utils
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch.serialization import safe_globals

from tupe.errors import UserError
from tupe.fairseq_patches.patching import overlay, patch, patched, patches, put, replaced
from tupe.fairseq_patches.scope import chosen, in_scope
from tupe.files import check_file
from tupe.position.registry import refuse_unregistered
from tupe.safe_load import check_finite, fairseq_globals, safe_load
from tupe.systems import system_fields

_BROADCAST_GLOBALS = (
    *(DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, distributed_utils._TensorPlaceholder),
    *(typing.Any, dict, list, int, collections.defaultdict),
)
MASK = "<mask>"  # which every task with masked words adds to its dictionary
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PREPARED_BY = {  # the data of a task; else a corpus
    "TupeQuestionAnsweringTask": "tupe prepare-qa",
    "TupeSentencePredictionTask": "tupe prepare-glue",
    "TranslationTask": "tupe prepare-translation",
}


_OPENED: ContextVar[Mapping[str, dict[str, Any]] | None] = ContextVar("opened checkpoints", default=None)


@contextlib.contextmanager
def opened(states: Mapping[str, dict[str, Any]]) -> Iterator[None]:
    """While it lasts, fairseq takes what these files hold from `states`, by path, and does not read them again."""
    token = _OPENED.set(states)
    try:
        with patched():
            yield
    finally:
        _OPENED.reset(token)


def load(file, **options) -> dict:
    """`torch.load` as `fairseq.checkpoint_utils` sees it: for an opened checkpoint file, on the CPU, `weights_only`.

    For every checkpoint, because whose it is stands in the file. What fairseq wrote without code loads as ever.

    Raises:
        UserError: as `safe_load`.
    """
    state = (_OPENED.get() or {}).get(file.name)
    if state is None:
        return safe_load(file.name)
    return {**state, "model": {**state["model"]}}  # fairseq and the models change names in both


@patch
def checkpoints_are_read_without_code() -> None:
    """fairseq leaves `weights_only` to PyTorch's default: below 2.6 that runs what the file says, from 2.6 it refuses
    names that fairseq itself wrote.
    """
    overlay(checkpoint_utils, "torch", "load_ema_from_checkpoint", load=load)
    put(checkpoint_utils, "torch", overlay(checkpoint_utils, "torch", "load_checkpoint_to_cpu", load=load))


@patches(checkpoint_utils, "load_checkpoint_to_cpu", "path")
def checkpoint_is_whole(original):
    """A `dict` that is no checkpoint fails in fairseq, or later; old checkpoints, which it upgrades, do not."""

    def load_checkpoint_to_cpu(path, *args, **kwargs):
        try:
            state = original(path, *args, **kwargs)
        except (AttributeError, KeyError, TypeError) as error:
            raise _no_checkpoint(path, safe_load(path)) or error from error
        cfg = state.get("cfg")
        if cfg:
            _check_terms(path, cfg.get("model"))
        if (not cfg and not state.get("args")) or (cfg and in_scope(chosen("model", cfg.get("model")))):
            error = _no_checkpoint(path, state)
            if error is not None:
                raise error
        if cfg and in_scope(chosen("model", cfg.get("model"))):
            check_finite(state["model"], path)  # training that goes on from NaN computes nothing else
        return state

    return load_checkpoint_to_cpu


def _check_terms(path, model) -> None:
    """Terms that nobody has registered are otherwise a traceback of omegaconf's."""
    known = MODEL_DATACLASS_REGISTRY.get(getattr(model, "_name", None))
    if known is not None and in_scope(chosen("model", model)):
        refuse_unregistered(path, known, lambda side: getattr(model, side, None))


def _no_checkpoint(path, state: dict) -> UserError | None:
    missing = [key for key in ("model", "optimizer_history", "extra_state") if key not in state]
    if not state.get("cfg") and not state.get("args"):
        missing.append("cfg")
    if not missing:
        return None
    return UserError(f"{path} is not a checkpoint of fairseq, which has {', '.join(missing)}: give one that is")


def broadcast_configurations() -> AbstractContextManager:
    """Let a resumed run send its checkpoint, with objects of omegaconf, to the other ranks through `torch.load`."""
    return safe_globals([*fairseq_globals(), *_BROADCAST_GLOBALS])


def prepared_by(task: FairseqTask) -> str:
    """The command that makes the data of a task."""
    return _PREPARED_BY.get(type(task).__name__, "tupe prepare-corpus --vocabulary")


def read_dictionary(path: Path, made_by: str) -> Dictionary:
    """fairseq's dictionary with `<mask>`, as tasks have it. Raises a `UserError` if the file is none."""
    check_file(path, made_by)
    try:
        dictionary = Dictionary.load(str(path))
    except Exception as error:  # fairseq's own, of a line or of bytes that are no text
        raise _no_dictionary(path, error, f"give what {made_by} wrote") from None
    dictionary.add_symbol(MASK)
    return dictionary


def _no_dictionary(path: str | Path, error: Exception, what_to_do: str) -> UserError:
    if isinstance(error, UserError):
        return error
    return UserError(f"{path} is no dictionary ({' '.join(str(error).split())[:200]}): {what_to_do}.")


@patches(Dictionary, "add_from_file", "self f")
def whole_dictionary(original):
    """Name the file of a line or of bytes that no dictionary has."""

    def add_from_file(self, f):
        try:
            return original(self, f)
        except OSError:
            raise
        except Exception as error:
            if not isinstance(f, str):  # fairseq calls the method again with the open file
                raise
            raise _no_dictionary(f, error, "copy it again, or prepare the data again") from error

    return add_from_file


def dictionary_sha256(dictionary: Dictionary) -> str:
    """Checksum of the symbols in their order, special ones and `<mask>` included (all tasks add the same)."""
    return _sha256(dictionary.symbols)


def _sha256(symbols: list[str]) -> str:
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


def refuse_other_dictionary(
    checksum: str | None,
    dictionary: Dictionary,
    made_by: str,
    size: int | None = None,
    where: str = "",
    data: str = "the data",
    side: str = "",
) -> None:
    """Raise a `UserError` unless `dictionary` has this checksum, or this size if a checkpoint has none."""
    here = len(dictionary)
    same_size = size in (None, here)
    if same_size if checksum is None else checksum == dictionary_sha256(dictionary):
        return
    if checksum == _sha256([*dictionary.symbols, MASK]):
        raise UserError(
            f"the checkpoint{where} predicts masked words, and there is no {MASK} here: score it with "
            "`fairseq-validate --task masked_lm` or `tupe loss-by-position`"
        )
    how = "other symbols or order" if same_size else f"{size} symbols, the data's has {here}"
    raise UserError(
        f"the checkpoint{where} was trained with another {side}dictionary ({how}): give the data that it was trained "
        f"on, or prepare {data} again with its vocabulary ({made_by}; `fairseq-preprocess --srcdict` with its dict.txt)"
    )


def refuse_other_target(cfg: Any, task: FairseqTask, where: str = "") -> None:
    """Raise a `UserError` unless the task has the target dictionary of the checksum in `cfg`, a model's."""
    checksum = getattr(cfg, "target_dictionary_sha256", None)
    if checksum is not None:
        refuse_other_dictionary(checksum, task.target_dictionary, prepared_by(task), where=where, side="target ")


def saved_size(state: dict) -> int | None:
    """How many symbols a checkpoint has: rows of the first embedding."""
    return next((len(rows) for name, rows in state["model"].items() if name.endswith("embed_tokens.weight")), None)


def record_dictionaries(cfg, task) -> None:
    """Write the checksums of the dictionaries into `cfg.model`, which every checkpoint of the run carries."""
    for field, side in (("dictionary_sha256", "source"), ("target_dictionary_sha256", "target")):
        if hasattr(cfg.model, field) and getattr(task, f"{side}_dictionary") is not None:
            setattr(cfg.model, field, dictionary_sha256(getattr(task, f"{side}_dictionary")))


@contextlib.contextmanager
def checkpoint_fits(trainer: Trainer, filename: str) -> Iterator[None]:
    """Compare the checkpoint that is loaded with the run.

    fairseq says "please ensure that the architectures match" and hides the reason.

    Raises:
        UserError: if the checkpoint is of something else.
    """
    load = checkpoint_utils.load_checkpoint_to_cpu

    def load_and_compare(path, *load_args, **load_kwargs):
        state = load(path, *load_args, **load_kwargs)
        compare(path, state, trainer.cfg.model, trainer.task)
        return state

    try:
        with replaced(checkpoint_utils, "load_checkpoint_to_cpu", load_and_compare):
            yield
    except AssertionError as error:  # another criterion or optimizer
        raise UserError(
            f"{filename} cannot be continued: {str(error).rstrip('.')}; to start a new run from its parameters "
            "use --finetune-from-model instead of --restore-file"
        ) from error
    except Exception as error:
        reason = error.__context__
        if "parameter group" in str(error):
            raise UserError(
                f"the optimizer in {filename} has other groups of parameters: resume with the --layer-decay that "
                "it had, or with --reset-optimizer"
            ) from error
        if isinstance(error, UserError) or not str(error).startswith("Cannot load model parameters"):
            raise
        if isinstance(reason, UserError):
            raise reason from None
        lines = "; ".join(line.strip() for line in str(reason).splitlines())
        raise UserError(f"the parameters in {filename} are not those of this model: {lines[:400]}") from error


def compare(path: str, state: dict, model: Any, task: Any) -> None:
    """Raise a `UserError` if the checkpoint's dictionary or position encoding is not that of this run.

    Args:
        path: name of the checkpoint.
        state: what is in it, as `load_checkpoint_to_cpu` returns it.
        model: the configuration `cfg.model` of this run.
        task: has the dictionaries of this run.
    """
    theirs, is_ours = state["cfg"].model, hasattr(model, "dictionary_sha256")
    if is_ours and not hasattr(theirs, "dictionary_sha256"):
        raise UserError(f"checkpoint {path} is of fairseq's model {theirs._name}: give one that a model of TUPE wrote")
    kinds = [("a translation model" if hasattr(cfg, "decoder_layers") else "an encoder") for cfg in (theirs, model)]
    if is_ours and kinds[0] != kinds[1]:
        raise UserError(f"checkpoint {path} is {kinds[0]} ({theirs._name}), but this run trains {kinds[1]}")
    checksum = getattr(theirs, "dictionary_sha256", None)
    if is_ours or checksum is not None:
        refuse_other_dictionary(checksum, task.source_dictionary, prepared_by(task), saved_size(state), f" {path}")
    if is_ours:
        refuse_other_target(theirs, task, f" {path}")
        differing = [
            f"{field}: checkpoint {getattr(theirs, field)}, here {getattr(model, field)}"
            for field in system_fields(MODEL_DATACLASS_REGISTRY[model._name])
            if hasattr(theirs, field)
            and getattr(theirs, field) != getattr(model, field)
            # fine-tuning may add segments (as DIET does): their parameters then start at zero
            and not (field == "segment" and theirs.segment == "none")
        ]
        if differing:
            raise UserError(
                f"checkpoint {path} is of another system ({'; '.join(differing)}): run with the checkpoint's values, "
                "or start from a checkpoint of this system"
            )


def names(value: Any, kept: Collection[str] = ()) -> Any:
    """`value`, nested dictionaries and lists, with the last part of every absolute path, also in `a:b`.

    `kept` are keys whose values stay.
    """
    if isinstance(value, dict):
        return {key: item if key in kept else names(item, kept) for key, item in value.items()}
    if isinstance(value, list):
        return [names(item, kept) for item in value]
    if not isinstance(value, str) or "://" in value:
        return value
    parts = value.split(os.pathsep)
    return os.pathsep.join(os.path.basename(os.path.normpath(part)) if os.path.isabs(part) else part for part in parts)


def written_once() -> AbstractContextManager:
    """Write checkpoints in one try. On a full disk fairseq tries three times and leaves a part of the file."""
    save_otherwise, files = checkpoint_utils.torch_persistent_save, checkpoint_utils.PathManager

    def save(state, filename, async_write=False):
        if async_write or not files.supports_rename(filename):
            return save_otherwise(state, filename, async_write)
        with _whole(filename, lambda: _saved_size(state)) as unfinished, open(unfinished, "wb") as file:
            torch.save(state, file)  # an opened file: given a name, PyTorch hides the system's error

    return replaced(checkpoint_utils, "torch_persistent_save", save)


def copied_whole() -> AbstractContextManager:
    """Copy checkpoints whole: a run that is killed while `checkpoint_last.pt` is copied leaves half a file."""
    files = checkpoint_utils.PathManager
    copy_now = files.copy

    def copy(source, target, overwrite=False):
        if not files.supports_rename(target):
            return copy_now(source, target, overwrite)
        with _whole(target, lambda: os.path.getsize(source)) as unfinished:
            copy_now(source, unfinished, overwrite=True)
        return True

    return replaced(files, "copy", staticmethod(copy))


@contextlib.contextmanager
def _whole(target: str, size: Callable[[], int]) -> Iterator[str]:
    """Yield a temporary name beside `target`, which becomes `target` when the block ends without an exception.

    Raises:
        UserError: if the file cannot be written; on a full disk it says how many of the `size()` bytes are missing.
    """
    unfinished = f"{target}.tmp"
    try:
        yield unfinished
        os.replace(unfinished, target)
    except Exception as error:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        cause = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__  # PyTorch's writer raises an error of its own
        if cause is None:
            raise
        reason = cause.strerror
        if cause.errno in _FULL:
            needed, free = size(), shutil.disk_usage(os.path.dirname(os.path.abspath(target))).free
            reason = f"{reason}: {needed:,} bytes are needed, {free:,} are free, {max(needed - free, 0):,} are missing"
        raise UserError(
            f"{target} cannot be written ({reason}): the checkpoints before it are whole, so make room or set "
            "checkpoint.save_dir to another disk, and the same command goes on"
        ) from error


def _saved_size(state: dict) -> int:
    counter = _Counter()
    torch.save(state, counter)
    return counter.written


class _Counter(io.RawIOBase):
    """A file that keeps nothing but the number of its bytes."""

    written = 0

    def write(self, data) -> int:
        self.written += len(data)
        return len(data)
