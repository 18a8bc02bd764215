"""Checkpoints: read without running code, compared with the run that loads them, written whole or not at all."""

import hashlib
import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.file_io import PathManager
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.utils import split_paths
from omegaconf import OmegaConf

from tupe.data.glue.tasks import training_file
from tupe.data.manifest import check_files
from tupe.data.tokenizers import MASK, is_piece
from tupe.patches.safe_load import safe_load
from tupe.systems import system_fields
from tupe.util import UserError, atomic

LAST = "checkpoint_last.pt"  # fairseq's default of `restore_file`
_copy = PathManager.copy
_load_model_ensemble_and_task = checkpoint_utils.load_model_ensemble_and_task


def load_checkpoint_to_cpu(path, arg_overrides=None, load_on_all_ranks=False) -> dict:
    """Read a checkpoint by `safe_load`.

    fairseq calls `torch.load` with its default, `weights_only`, which rejects names that fairseq itself wrote.
    `arg_overrides` replaces settings by name in all parts of the configuration, as in fairseq.
    """
    state = safe_load(PathManager.get_local_path(path))
    overrides = arg_overrides or {}
    if state.get("args") is not None:
        vars(state["args"]).update(overrides)
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
        overwrite_args_by_name(state["cfg"], overrides)
    return checkpoint_utils._upgrade_state_dict(state)


def load_model_ensemble_and_task(filenames, arg_overrides=None, task=None, *args, **kwargs):
    """Load models one by one, and compare each with the task.

    A joined dictionary fits both directions, so fairseq would translate German as if it were English.
    """
    models = []
    for path in filenames:
        [model], cfg, task = _load_model_ensemble_and_task([path], arg_overrides, task, *args, **kwargs)
        refuse_mixed(trained_with(cfg), task, path)
        models.append(model)
    return models, cfg, task


def save_atomically(obj, filename, async_write=False) -> None:
    """Write a checkpoint whole or not at all.

    If writing fails, as on a full disk, fairseq tries three times, and appends to the remains of the last attempt.
    """
    with atomic(Path(filename), overwrite=True) as part:
        torch.save(obj, part)


def copy_atomically(src_path, dst_path, overwrite=False) -> bool:
    """Copy a file whole or not at all.

    fairseq overwrites `checkpoint_last.pt`, so a run that is killed meanwhile leaves half of it and cannot resume.
    """
    with atomic(Path(dst_path), overwrite=True) as part:
        _copy(src_path, str(part), overwrite=True)
    return True


def read_dictionary(path: Path) -> Dictionary:
    """Read a dictionary of fairseq and add `<mask>`, as tasks do."""
    dictionary = Dictionary.load(str(path))
    dictionary.add_symbol(MASK)
    return dictionary


def special_symbols(dictionary: Dictionary) -> list[bool]:
    """Return for each symbol whether it is one of fairseq's own, `<mask>`, or padding of the dictionary's size."""
    return [i < dictionary.nspecial or not is_piece(symbol) for i, symbol in enumerate(dictionary.symbols)]


def labels_sha256(data: Path) -> str:
    """Return the checksum of the classes in `data/label/dict.txt` in their order, or `none` for a regression."""
    if not (path := data / "label/dict.txt").is_file():
        return "none"
    labels = Dictionary.load(str(path))
    return symbols_sha256([label for label in labels.symbols[labels.nspecial :] if label != MASK])


def symbols_sha256(symbols: list[str]) -> str:
    """Return the SHA-256 of symbols in order; of a dictionary, special ones and `<mask>` included."""
    return hashlib.sha256("\n".join(symbols).encode()).hexdigest()


#: Facts in a checkpoint that say what its outputs mean: name -> function that reads it from a task, and description.
FACTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dictionary_sha256": (lambda task: symbols_sha256(task.source_dictionary.symbols), "dictionary"),
    "target_dictionary_sha256": (lambda task: symbols_sha256(task.target_dictionary.symbols), "dictionary"),
    "symbols": (lambda task: len(task.source_dictionary), "dictionary"),
    "labels_sha256": (lambda task: labels_sha256(Path(task.cfg.data)), "order or set of labels"),
    "source_lang": (lambda task: getattr(task.cfg, "source_lang", None), "source language"),
    "target_lang": (lambda task: getattr(task.cfg, "target_lang", None), "target language"),
    "examples": (lambda task: training_file(task.cfg.data), "task"),
}


def record_facts(cfg: Any, task: Any) -> None:
    """Write checksums of dictionaries and classes, and lengths, into `cfg`, which every checkpoint of the run has."""
    for part in (cfg.model, cfg.task):
        for name, (of_task, _) in FACTS.items():
            if name.endswith("_sha256") and hasattr(part, name):
                setattr(part, name, of_task(task))
    if hasattr(cfg.model, "target_dictionary_sha256"):  # `fairseq-generate` has its own task, of 1,024 by default
        source, target = task.max_positions()
        cfg.model.max_source_positions = cfg.model.max_source_positions or source
        cfg.model.max_target_positions = cfg.model.max_target_positions or target


def trained_with(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `FACTS` that the configuration in a checkpoint contains."""
    fields = {**_saved(cfg, "model"), **_saved(cfg, "task")}
    found = {name: fields[name] for name in FACTS if name in fields}
    return {**found, "examples": training_file(fields.get("data"))}


def refuse_mixed(trained: Mapping[str, Any], task: Any, checkpoint: object = "The checkpoint") -> None:
    """Raise a `UserError` unless the facts of `task` are those that a model was `trained` with.

    If they differ, a model that fits in shape computes numbers with another meaning. `None` is not compared.
    """
    for name, value in trained.items():
        here = None if value is None else FACTS[name][0](task)
        if here is not None and here != value:
            values = "" if name.endswith("_sha256") else f" ({value}, not {here})"
            raise UserError(
                f"{checkpoint} was trained with another {FACTS[name][1]} than the data's{values}. "
                "Use the checkpoint's data, or prepare yours in the same way."
            )


def check_data(data: str) -> None:
    """Compare the folders of `data` (`a:b:c`) with their manifests, and their dictionaries with those of the first.

    Raises:
        UserError: a file changed since it was prepared, or would be read by the dictionary of another vocabulary.
    """
    folders = [Path(folder) for folder in split_paths(data)]
    for folder in folders:
        check_files(folder)
        for path in folders[0].glob("dict*.txt"):
            there = folder / path.name
            if there.exists() and Dictionary.load(str(there)).symbols != Dictionary.load(str(path)).symbols:
                raise UserError(f"{there} has other symbols than {path}. Prepare all folders with one vocabulary.")


def refuse_to_begin(path: str, why: str) -> None:
    """Raise a `UserError` that names the newest readable checkpoint next to `path`; do nothing if there is none."""
    others = set(Path(path).parent.glob("checkpoint*.pt")) - {Path(path)}
    for other in sorted(others, key=os.path.getmtime, reverse=True):
        try:
            safe_load(other)
        except Exception:
            continue
        raise UserError(f"{path} {why}. To resume from {other}, copy it to {path}; to restart, save in another folder.")


def check_checkpoint(path: str, cfg: Any, task: Any, resumes: bool) -> None:
    """Compare a checkpoint with the run of `cfg` that starts from it, or `resumes` it.

    Raises:
        UserError: it has another dictionary or system, other labels, or no state to resume from.
    """
    try:
        state = safe_load(path)
    except Exception:
        refuse_to_begin(path, "cannot be read")
        raise
    compare(path, state, cfg.model, task)
    if not resumes:
        return
    if cfg.checkpoint.restore_file == LAST and state.get("last_optimizer_state") is None:
        raise UserError(
            f"{path} does not have the optimizer's state, so the run would start again from its parameters. Pass it as "
            "--finetune-from-model and save elsewhere."
        )
    refuse_mixed(trained_with(state["cfg"]), task, path)


def compare(path: str, state: dict, model: Any, task: Any) -> None:
    """Raise a `UserError` if a checkpoint has another dictionary than `task`, or another system than `model`.

    `model` is `cfg.model` of this run. The fields of a system change the function, but not always a shape.
    """
    theirs = Namespace(**{**_saved(state.get("cfg"), "model"), "pretrained": None})  # a file that is not opened
    if not hasattr(model, "dictionary_sha256") or not hasattr(theirs, "dictionary_sha256"):
        return  # a model of fairseq's, whose parameters have other names
    embeddings = (len(rows) for name, rows in state["model"].items() if name.endswith("embed_tokens.weight"))
    dictionaries = {name: value for name, value in vars(theirs).items() if name in FACTS}
    refuse_mixed({**dictionaries, "symbols": next(embeddings, None)}, task, f"Checkpoint {path}")

    # a field that was added after the checkpoint was written had the default of the checkpoint's model
    ARCH_CONFIG_REGISTRY[theirs._name](theirs)
    kind = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[model._name]]
    differing = []
    for field in system_fields(kind):
        saved, here = getattr(theirs, field, "has none"), getattr(model, field)  # an encoder lacks ELECTRA's fields
        if saved != here and (field, saved) != ("segment", "none"):  # fine-tuning may add segments, as DIET does
            differing.append(f"{field}: checkpoint {saved}, here {here}")
    if differing:
        raise UserError(f"Checkpoint {path} has another system ({'; '.join(differing)}). Use the checkpoint's values.")


def _saved(cfg: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    """Return a part of the configuration in a checkpoint; empty if fairseq saved it in its old form."""
    part = (cfg or {}).get(name)
    return part if isinstance(part, Mapping) else {}
