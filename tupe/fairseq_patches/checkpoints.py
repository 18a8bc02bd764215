"""Checkpoints: read without running code, refused where they do not fit a run, written whole or not at all."""

import collections
import contextlib
import dataclasses
import hashlib
import io
import os
import typing
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, distributed_utils
from fairseq.data import Dictionary, iterators
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from fairseq.utils import split_paths
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch import Tensor
from torch.serialization import safe_globals

from tupe.data.corpus.manifest import NAME as MANIFEST
from tupe.errors import UserError, chain, one_line
from tupe.fairseq_patches.patching import overlay, patch, patched, patches, put
from tupe.fairseq_patches.scope import chosen, in_scope, raised_by_others
from tupe.files import atomic, check_checksums, check_file, read_json
from tupe.position.registry import refuse_unregistered
from tupe.safe_load import check_finite, fairseq_globals, safe_load
from tupe.systems import system_fields

_BROADCAST_GLOBALS = (
    *(DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, distributed_utils._TensorPlaceholder),
    *(typing.Any, dict, list, int, collections.defaultdict),
)
MASK = "<mask>"  # which every task with masked words adds to its dictionary
#: What a checkpoint has beside a model.
_PARTS = {"optimizer_history": list, "extra_state": dict, "cfg": dict}
_PREPARED_BY = {  # the data of a task; else a corpus
    "TupeQuestionAnsweringTask": "tupe prepare-qa",
    "TupeTokenClassificationTask": "tupe prepare-task",
    "TupeSentencePredictionTask": "tupe prepare-glue or prepare-task",
    "TranslationTask": "tupe prepare-translation",
}


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

    For every checkpoint, because whose it is stands in the file. What fairseq wrote without code loads as ever.

    Raises:
        UserError: as `safe_load`, and if the file is no checkpoint, which fails later in fairseq, or not a whole one.
    """
    state = (_OPENED.get() or {}).get(file.name)
    state = safe_load(file.name) if state is None else state
    old = state.get("args") is not None  # fairseq adds to those what they lack
    parts = {"model": dict} if old else {"model": dict, **_PARTS}
    missing = [key for key, kind in parts.items() if not isinstance(state.get(key), kind)]
    if old:
        made_of = {"optimizer_history": "best_loss", "extra_state": "epoch"}
        missing += [key for key, source in made_of.items() if key not in state and source not in state]
    elif not missing:  # fairseq reads one of these of the last entry
        last = (state["optimizer_history"] or [None])[-1]
        is_read = isinstance(last, dict) and ("lr_scheduler_state" in last or "best_loss" in last)
        missing = [] if is_read else ["optimizer_history"]
    if missing:
        raise UserError(f"{file.name} is not a checkpoint of fairseq, which has {', '.join(missing)}: give one that is")
    model = saved_model(state)
    if in_scope(chosen("model", model.get("_name"))):
        if model["_name"] in MODEL_DATACLASS_REGISTRY:
            refuse_unregistered(file.name, MODEL_DATACLASS_REGISTRY[model["_name"]], model.get)
        check_finite(state["model"], file.name)  # training that goes on from NaN computes nothing else
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


def prepared_by(task: FairseqTask) -> str:
    """Return the command that makes the data of a task."""
    return _PREPARED_BY.get(type(task).__name__, "tupe prepare-corpus --vocabulary")


def read_dictionary(path: Path, made_by: str, what_to_do: str = "give what {} wrote") -> Dictionary:
    """Read fairseq's dictionary with `<mask>`, as tasks have it. Raise a `UserError` if the file is none."""
    check_file(path, made_by)
    try:
        dictionary = Dictionary.load(str(path))
    except Exception as error:  # fairseq's own, of a line or of bytes that are no text
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is no dictionary ({reason}): {what_to_do.format(made_by)}.") from error
    dictionary.add_symbol(MASK)
    return dictionary


def special_symbols(dictionary: Dictionary) -> list[bool]:
    """Tell of each symbol whether it is one of fairseq's own, `<mask>`, or padding of the dictionary's size."""
    symbols = enumerate(dictionary.symbols)
    return [i < dictionary.nspecial or symbol == MASK or symbol.startswith("madeupword") for i, symbol in symbols]


def dictionary_sha256(dictionary: Dictionary) -> str:
    """Checksum of the symbols in their order, special ones and `<mask>` included (all tasks add the same)."""
    return _sha256(dictionary.symbols)


def labels_sha256(labels: Dictionary) -> str:
    """Checksum of the classes of a task in their order, without what fairseq adds to every dictionary."""
    return _sha256([label for label in labels.symbols[labels.nspecial :] if label != MASK])


def refuse_other_labels(trained: str | None, labels: Dictionary | None, checkpoint: object, data: object) -> None:
    """Raise a `UserError` if the classes of `data` are not those of the checksum; without one, nothing is compared."""
    if trained is not None and labels is not None and trained != labels_sha256(labels):
        raise UserError(
            f"{checkpoint} was fine-tuned with other labels than those of {data}/label/dict.txt, or with these in "
            "another order: prepare the task as it was, one of your own with --labels in that order, or fine-tune anew"
        )


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


def refuse_changed_dictionaries(task: Any) -> None:
    """Raise a `UserError` if a dictionary of the task's data is not that of the manifest beside it, or of other shards.

    No command would find it before the training has ended and its checkpoint meets the dictionary that was meant.
    """
    folders = [*map(Path, split_paths(getattr(task, "data", None) or ""))]
    for folder in folders:
        made_by = "the command that prepared it"
        manifest = read_json(folder / MANIFEST, made_by) if (folder / MANIFEST).is_file() else None
        sums = manifest.get("checksums") if isinstance(manifest, dict) else None
        of_dictionaries = {name: each for name, each in (sums or {}).items() if Path(name).name.startswith("dict.")}
        check_checksums(folder, of_dictionaries, made_by)
        for path in () if folder == folders[0] else folders[0].glob("dict*.txt"):
            other = folder / path.name
            if other.is_file() and read_dictionary(other, made_by).symbols != read_dictionary(path, made_by).symbols:
                raise UserError(
                    f"{other} has other symbols than {path}, by which all folders are read: prepare them with one "
                    "vocabulary (tupe prepare-corpus --vocabulary; `fairseq-preprocess --srcdict`)"
                )


def refuse_other_target(cfg: Any, task: FairseqTask, where: str = "") -> None:
    """Raise a `UserError` unless the task has the target dictionary of the checksum in `cfg`, a model's."""
    checksum = getattr(cfg, "target_dictionary_sha256", None)
    if checksum is not None:
        refuse_other_dictionary(checksum, task.target_dictionary, prepared_by(task), where=where, side="target ")


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


@contextlib.contextmanager
def checkpoint_fits(trainer: Trainer, filename: str, goes_on: bool = True) -> Iterator[None]:
    """Compare the checkpoint that is loaded with the run, and if the same run `goes_on`, the labels of its task too.

    fairseq says "please ensure that the architectures match" and hides the reason.
    """

    def fits(path: str, state: dict) -> None:
        compare(path, state, trainer.cfg.model, trainer.task)
        own = trainer.cfg.checkpoint.restore_file == "checkpoint_last.pt"  # else a new run may begin with it
        if goes_on and own and state.get("last_optimizer_state") is None:
            raise UserError(
                f"{path} has no state of the optimizer, so that the run would begin anew from its parameters "
                "(--no-save-optimizer-state): name it as --finetune-from-model and save elsewhere, or move it away"
            )
        for name in ("best", "previous_training_time"):  # fairseq reads them after the updates, which would be lost
            value = state["extra_state"].get(name, 0)
            if not isinstance(value, (Real, Tensor)):  # a tensor is the time of several processes
                raise UserError(f"{path} says that {name} is {value!r:.40}, which is no number: give an earlier one")
        if trainer.cfg.ema.store_ema and "ema" not in state["extra_state"]:  # fairseq would look for them in vain
            raise UserError(f"{path} has no averaged weights to go on from: leave out --store-ema, or begin a run anew")
        registers = getattr(trainer.cfg.model, "load_checkpoint_heads", False)  # what the checkpoint has
        lost = set(state["model"]) - set(trainer.get_model().state_dict()) if goes_on and own and not registers else ()
        if heads := sorted(name for name in lost if name.startswith("classification_heads.")):
            raise UserError(f"{path} has {heads[0]}, which would be lost: give --classification-head-name as before")
        task = (state.get("cfg") or {}).get("task") or {}
        if goes_on and "labels_sha256" in task:
            labels = getattr(trainer.task, "label_dictionary", None)
            refuse_other_labels(task["labels_sha256"], labels, path, trainer.task.cfg.data)

    try:
        with _set(_SHOWN_TO, fits):
            yield
        refuse_other_averages(filename, trainer.optimizer.optimizer.state if goes_on else {})
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
        if isinstance(error, (AttributeError, LookupError, TypeError)) and not raised_by_others(error):
            raise UserError(
                f"{filename} cannot be continued, because what it says of its training is damaged "
                f"({type(error).__name__}: {one_line(error):.100}): give an earlier one, or start a new run from its "
                "parameters by --finetune-from-model"
            ) from error
        if isinstance(error, UserError) or not str(error).startswith("Cannot load model parameters"):
            raise
        if isinstance(reason, UserError):
            raise reason from None
        lines = "; ".join(line.strip() for line in str(reason).splitlines())
        raise UserError(f"the parameters in {filename} are not those of this model: {lines[:400]}") from error


def refuse_other_averages(path: str, held: Mapping[Tensor, dict[str, Any]]) -> None:
    """Raise a `UserError` if an optimizer holds what is of other sizes, as of a table that was cut, or not finite."""
    for parameter, state in held.items():
        for found in state.values():
            if isinstance(found, Tensor) and not found.isfinite().all():
                raise UserError(f"the optimizer in {path} holds NaN or infinite numbers: give an earlier checkpoint")
            if isinstance(found, Tensor) and found.ndim == parameter.ndim and found.shape != parameter.shape:
                raise UserError(
                    f"the optimizer in {path} is of parameters {tuple(found.shape)}, which are "
                    f"{tuple(parameter.shape)} here: resume with the number of positions that it had, or with "
                    "--reset-optimizer"
                )


def same_direction(task: Any) -> AbstractContextManager:
    """Refuse within the block a checkpoint that translates in the other direction than `task`, a configuration.

    A dictionary of both languages fits either.
    """

    def compare_languages(path: str, state: dict) -> None:
        trained = saved_fields(saved_fields(state.get("cfg")).get("task"))
        source, target = (getattr(task, f"{side}_lang", None) for side in ("source", "target"))
        if source != target and (source, target) == (trained.get("target_lang"), trained.get("source_lang")):
            raise UserError(
                f"{path} translates from {target} to {source}: give it these languages, -s {target} -t {source}"
            )

    return _set(_SHOWN_TO, compare_languages)


def compare(path: str, state: dict, model: Any, task: Any) -> None:
    """Raise a `UserError` if the dictionary or position encoding in a checkpoint is not that of this run.

    `model` is `cfg.model` of this run, and `task` has its dictionaries.
    """
    theirs, is_ours = Namespace(**saved_model(state)), hasattr(model, "dictionary_sha256")
    name = getattr(theirs, "_name", None) or getattr(theirs, "arch", None)
    if is_ours and not hasattr(theirs, "dictionary_sha256"):
        raise UserError(f"checkpoint {path} is of fairseq's model {name}: give one that a model of TUPE wrote")
    kinds = [("a translation model" if hasattr(cfg, "decoder_layers") else "an encoder") for cfg in (theirs, model)]
    if is_ours and kinds[0] != kinds[1]:
        raise UserError(f"checkpoint {path} is {kinds[0]} ({name}), but this run trains {kinds[1]}")
    checksum = getattr(theirs, "dictionary_sha256", None)
    if is_ours or checksum is not None:
        refuse_other_dictionary(checksum, task.source_dictionary, prepared_by(task), saved_size(state), f" {path}")
    if is_ours:
        refuse_other_target(theirs, task, f" {path}")
        # a field that is younger than the checkpoint had the default of the checkpoint's model
        defaults = MODEL_DATACLASS_REGISTRY.get(name, MODEL_DATACLASS_REGISTRY[model._name])
        had = {field.name: field.default for field in dataclasses.fields(defaults)} | vars(theirs)
        differing = [
            f"{field}: checkpoint {had.get(field, 'has none')}, here {getattr(model, field)}"
            for field in system_fields(MODEL_DATACLASS_REGISTRY[model._name])
            if had.get(field, "has none") != getattr(model, field)  # an encoder lacks what an ELECTRA has
            # fine-tuning may add segments (as DIET does): their parameters then start at zero
            and not (field == "segment" and theirs.segment == "none")
        ]
        if differing:
            raise UserError(
                f"checkpoint {path} is of another system ({'; '.join(differing)}): run with the checkpoint's values, "
                "or start from a checkpoint of this system"
            )


def names(value: Any, kept: Collection[str] = ()) -> Any:
    """Cut every absolute path in nested dictionaries and lists to its last part, also in `a:b`.

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


@patches(iterators.EpochBatchIterator, "load_state_dict", "self state_dict")
def within_the_epoch(original):
    """Say what fairseq asks to be reported to its developers."""

    def load_state_dict(self, state_dict):
        try:
            return original(self, state_dict)
        except RuntimeError as error:
            if "dataloader mismatch" not in str(error):
                raise
            raise UserError(
                f"the checkpoint is of {state_dict['iterations_in_epoch']} batches into its epoch, which is shorter "
                "here: resume with the data, the batch size and the number of processes that it had, or with "
                "--reset-dataloader (checkpoint.reset_dataloader=true)"
            ) from error

    return load_state_dict


@patches(checkpoint_utils, "torch_persistent_save", "obj filename async_write")
def written_once(original):
    """Write a file once and whole, in every run. On a full disk fairseq tries three times, and leaves a part of it.

    An opened file is written, because PyTorch hides the system's error where it is given a name.
    """

    def torch_persistent_save(obj, filename, async_write=False):
        if async_write or not checkpoint_utils.PathManager.supports_rename(filename):
            return original(obj, filename, async_write)
        with _whole(filename, lambda: size_on_disk(obj)) as unfinished, open(unfinished, "wb") as file:
            torch.save(obj, file)

    return torch_persistent_save


@patches(checkpoint_utils.PathManager, "copy", "src_path dst_path overwrite")
def copied_whole(original):
    """Copy a file whole, in every run. One that is killed while it copies `checkpoint_last.pt` leaves half of it."""

    def copy(src_path, dst_path, overwrite=False):
        if not checkpoint_utils.PathManager.supports_rename(dst_path):
            return original(src_path, dst_path, overwrite)
        with _whole(dst_path, lambda: os.path.getsize(src_path)) as unfinished:
            original(src_path, str(unfinished), overwrite=True)
        return True

    return copy


@contextlib.contextmanager
def _whole(target: str, size: Callable[[], int]) -> Iterator[Path]:
    """Write as `atomic` does, and say in an error that the run goes on."""
    try:
        with atomic(Path(target), size) as unfinished:
            yield unfinished
    except UserError as error:
        raise UserError(f"{error} The checkpoints before it are whole, and the same command goes on.") from error
    except Exception as error:
        # PyTorch's writer raises an error of its own
        cause = next((each for each in chain(error) if isinstance(each, OSError)), None)
        if cause is None:
            raise
        raise UserError(
            f"{target} cannot be written ({cause.strerror}): the checkpoints before it are whole, so mend that or set "
            "checkpoint.save_dir to another place, and the same command goes on."
        ) from error


def size_on_disk(state: dict[str, Any]) -> int:
    """Return how many bytes a checkpoint takes."""
    counter = _Counter()
    torch.save(state, counter)
    return counter.written


class _Counter(io.RawIOBase):
    """A file that keeps nothing but the number of its bytes."""

    written = 0

    def write(self, data) -> int:
        self.written += len(data)
        return len(data)
