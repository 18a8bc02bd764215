"""Checkpoints: read without running code, compared with the run that loads them, written whole or not at all."""

import collections
import contextlib
import hashlib
import typing
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, distributed_utils
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.trainer import Trainer
from fairseq.utils import split_paths
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch.serialization import safe_globals

from tupe.fairseq_patches.patching import overlay, patch, patched, patches, put
from tupe.safe_load import fairseq_globals, refuse_calls, safe_load
from tupe.systems import system_fields
from tupe.util import UserError, atomic

_BROADCAST_GLOBALS = (
    *(DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, distributed_utils._TensorPlaceholder),
    *(typing.Any, dict, list, int, collections.defaultdict),
)
MASK = "<mask>"  # which every task with masked tokens adds to its dictionary
LAST = "checkpoint_last.pt"

#: What is known of checkpoint files by path, and who is shown each that is read.
_OPENED: ContextVar[Mapping[str, dict[str, Any]] | None] = ContextVar("opened checkpoints", default=None)
_SHOWN_TO: ContextVar[Callable[[str, dict[str, Any]], None] | None] = ContextVar("shown to", default=None)


@contextlib.contextmanager
def _set(variable: ContextVar, value: object) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def opened(states: Mapping[str, dict[str, Any]]) -> Iterator[None]:
    """Let fairseq take what these files hold from `states`, by path, within the block, and not read them again."""
    with _set(_OPENED, states), patched():
        yield


def load(file, **options) -> dict:
    """Load an opened checkpoint file on the CPU, `weights_only`, as `torch.load` of `fairseq.checkpoint_utils`.

    This holds for every checkpoint, because only the file says whose it is.

    Raises:
        UserError: as `safe_load` and `refuse_calls`.
    """
    state = (_OPENED.get() or {}).get(file.name)
    state = safe_load(file.name) if state is None else state
    refuse_calls(state, file.name)
    if (shown_to := _SHOWN_TO.get()) is not None:
        shown_to(file.name, state)
    return {**state, "model": {**state["model"]}}  # fairseq and the models change names in both


def saved_model(state: dict) -> dict[str, Any]:
    """Return the configuration of the model in a checkpoint by field."""
    return saved_fields(state["args"] if state.get("args") is not None else saved_fields(state["cfg"]).get("model"))


def saved_fields(part: object) -> dict[str, Any]:
    """Return a part of a configuration by field; fairseq saves it as a dictionary or as a `Namespace`."""
    part = vars(part) if isinstance(part, Namespace) else part
    return part if isinstance(part, dict) else {}


@patch
def checkpoints_are_read_without_code() -> None:
    """Read checkpoints by `load`. PyTorch's default, `weights_only`, refuses names that fairseq itself wrote."""
    overlay(checkpoint_utils, "torch", "load_ema_from_checkpoint", load=load)
    put(checkpoint_utils, "torch", overlay(checkpoint_utils, "torch", "load_checkpoint_to_cpu", load=load))


def broadcast_configurations() -> AbstractContextManager:
    """Let a resumed run send its checkpoint, with objects of omegaconf, to the other ranks through `torch.load`."""
    return safe_globals([*fairseq_globals(), *_BROADCAST_GLOBALS])


def read_dictionary(path: Path) -> Dictionary:
    """Read fairseq's dictionary with `<mask>`, as tasks have it."""
    dictionary = Dictionary.load(str(path))
    dictionary.add_symbol(MASK)
    return dictionary


def special_symbols(dictionary: Dictionary) -> list[bool]:
    """Return for each symbol whether it is one of fairseq's own, `<mask>`, or padding of the dictionary's size."""
    symbols = enumerate(dictionary.symbols)
    return [i < dictionary.nspecial or symbol == MASK or symbol.startswith("madeupword") for i, symbol in symbols]


def dictionary_sha256(dictionary: Dictionary) -> str:
    """Checksum of the symbols in their order, special ones and `<mask>` included (all tasks add the same)."""
    return _sha256(dictionary.symbols)


def labels_sha256(labels: Dictionary) -> str:
    """Checksum of the classes of a task in their order, without what fairseq adds to every dictionary."""
    return _sha256([label for label in labels.symbols[labels.nspecial :] if label != MASK])


def _sha256(symbols: list[str]) -> str:
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


def refuse_other_labels(trained: str | None, labels: Dictionary | None, checkpoint: object, data: object) -> None:
    """Raise a `UserError` if the classes of `data` are not those of the checksum; without one, nothing is compared."""
    if trained is not None and labels is not None and trained != labels_sha256(labels):
        raise UserError(
            f"{checkpoint} was fine-tuned with other labels than those of {data}/label/dict.txt, or in another order. "
            "Prepare the task as it was, or fine-tune again."
        )


def refuse_other_dictionary(
    checksum: str | None,
    dictionary: Dictionary,
    size: int | None = None,
    where: str = "",
    data: str = "the data",
    side: str = "",
) -> None:
    """Raise a `UserError` unless `dictionary` has this checksum, or this size if a checkpoint has none."""
    if size in (None, len(dictionary)) if checksum is None else checksum == dictionary_sha256(dictionary):
        return
    raise UserError(
        f"The checkpoint{where} was trained with another {side}dictionary than that of {data}, which has "
        f"{len(dictionary)} symbols. Prepare {data} with the checkpoint's vocabulary."
    )


def refuse_other_shards(data: str) -> None:
    """Raise a `UserError` if a folder of `data` (`a:b:c`) has another dictionary than the first, which reads all."""
    first, *others = map(Path, split_paths(data))
    for other in others:
        for path in first.glob("dict*.txt"):
            there = other / path.name
            if there.exists() and Dictionary.load(str(there)).symbols != Dictionary.load(str(path)).symbols:
                raise UserError(f"{there} has other symbols than {path}. Prepare all folders with one vocabulary.")


def check_dictionaries(model: Any, task: Any, where: str = "", size: int | None = None) -> None:
    """Raise a `UserError` unless the task has the dictionaries whose checksums are in `model`, a configuration."""
    checksum = getattr(model, "dictionary_sha256", None)
    if checksum is not None or size is not None:
        refuse_other_dictionary(checksum, task.source_dictionary, size=size, where=where)
    checksum = getattr(model, "target_dictionary_sha256", None)
    if checksum is not None:
        refuse_other_dictionary(checksum, task.target_dictionary, where=where, side="target ")


def saved_size(state: dict) -> int | None:
    """Return how many symbols a checkpoint has, rows of the first embedding."""
    return next((len(rows) for name, rows in state["model"].items() if name.endswith("embed_tokens.weight")), None)


def record_dictionaries(cfg, task) -> None:
    """Write the checksums of the dictionaries and classes into `cfg`, which every checkpoint of the run carries."""
    for field, side in (("dictionary_sha256", "source"), ("target_dictionary_sha256", "target")):
        if hasattr(cfg.model, field) and getattr(task, f"{side}_dictionary") is not None:
            setattr(cfg.model, field, dictionary_sha256(getattr(task, f"{side}_dictionary")))
    if "labels_sha256" in cfg.task and not getattr(task.cfg, "regression_target", False):
        cfg.task.labels_sha256 = labels_sha256(task.label_dictionary)


def checkpoint_fits(trainer: Trainer, resumes: bool) -> AbstractContextManager:
    """Compare each checkpoint that is read in the block with the run; if the run `resumes`, also the task's labels."""

    def fits(path: str, state: dict) -> None:
        compare(path, state, trainer.cfg.model, trainer.task)
        if not resumes:
            return
        if trainer.cfg.checkpoint.restore_file == LAST and state.get("last_optimizer_state") is None:
            raise UserError(
                f"{path} has no state of the optimizer, so the run would begin again from its parameters. Pass it as "
                "--finetune-from-model and save elsewhere."
            )
        labels = getattr(trainer.task, "label_dictionary", None)
        trained = saved_fields(saved_fields(state.get("cfg")).get("task")).get("labels_sha256")
        refuse_other_labels(trained, labels, path, getattr(trainer.task.cfg, "data", None))

    return _set(_SHOWN_TO, fits)


def compare(path: str, state: dict, model: Any, task: Any) -> None:
    """Raise a `UserError` if a checkpoint has another dictionary than `task`, or another system than `model`.

    `model` is `cfg.model` of this run. The fields of a system change the function and not always a shape.
    """
    theirs = Namespace(**saved_model(state))
    if not hasattr(model, "dictionary_sha256") or not hasattr(theirs, "dictionary_sha256"):
        return  # a model of fairseq's, whose parameters have other names
    check_dictionaries(theirs, task, f" {path}", saved_size(state))
    # a field that is younger than the checkpoint had the default of the checkpoint's model
    ARCH_CONFIG_REGISTRY[theirs._name](theirs)
    differing = [
        f"{field}: checkpoint {getattr(theirs, field, 'has none')}, here {getattr(model, field)}"
        for field in system_fields(MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[model._name]])
        if getattr(theirs, field, "has none") != getattr(model, field)  # an encoder lacks what an ELECTRA has
        # fine-tuning may add segments (as DIET does): their parameters then start at zero
        and not (field == "segment" and theirs.segment == "none")
    ]
    if differing:
        raise UserError(
            f"Checkpoint {path} is of another system ({'; '.join(differing)}). Use the checkpoint's values."
        )


@patches(checkpoint_utils, "load_model_ensemble_and_task", "filenames arg_overrides task")
def same_direction(original):
    """Refuse a translator from German to English where English is translated: a joined dictionary fits either."""

    def load_model_ensemble_and_task(filenames, arg_overrides=None, task=None, *args, **kwargs):
        asked = Namespace(**(arg_overrides or {})) if task is None else getattr(task, "cfg", None)
        source, target = (getattr(asked, f"{side}_lang", None) for side in ("source", "target"))

        def compare_languages(path: str, state: dict) -> None:
            trained = saved_fields(saved_fields(state.get("cfg")).get("task"))
            if source != target and (source, target) == (trained.get("target_lang"), trained.get("source_lang")):
                raise UserError(f"{path} translates from {target} to {source}. Pass -s {target} -t {source}.")

        with _set(_SHOWN_TO, compare_languages):
            return original(filenames, arg_overrides, task, *args, **kwargs)

    return load_model_ensemble_and_task


@patches(checkpoint_utils, "torch_persistent_save", "obj filename async_write")
def written_whole(original):
    """Write a file whole or not at all, in every run. On a full disk fairseq tries three times, each after the last."""

    def torch_persistent_save(obj, filename, async_write=False):
        if async_write or not checkpoint_utils.PathManager.supports_rename(filename):
            return original(obj, filename, async_write)
        with atomic(Path(filename), overwrite=True) as part:
            torch.save(obj, part)

    return torch_persistent_save


@patches(checkpoint_utils.PathManager, "copy", "src_path dst_path overwrite")
def copied_whole(original):
    """Copy a file whole, in every run. One that is killed while it copies `checkpoint_last.pt` leaves half of it."""

    def copy(src_path, dst_path, overwrite=False):
        if not checkpoint_utils.PathManager.supports_rename(dst_path):
            return original(src_path, dst_path, overwrite)
        with atomic(Path(dst_path), overwrite=True) as part:
            original(src_path, str(part), overwrite=True)
        return True

    return copy
