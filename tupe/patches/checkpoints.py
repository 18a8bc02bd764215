"""Checkpoints: read without running code, compared with the run that loads them, written whole or not at all."""

import hashlib
from argparse import Namespace
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

from tupe.patches.safe_load import safe_load
from tupe.systems import system_fields
from tupe.util import UserError, atomic

MASK = "<mask>"  # which every task with masked tokens adds to its dictionary
LAST = "checkpoint_last.pt"  # fairseq's default of `restore_file`
#: Field of a model with the checksum of a dictionary -> the dictionary's name in a task.
DICTIONARIES = {"dictionary_sha256": "source_dictionary", "target_dictionary_sha256": "target_dictionary"}

_copy = PathManager.copy
_load_model_ensemble_and_task = checkpoint_utils.load_model_ensemble_and_task


def load_checkpoint_to_cpu(path, arg_overrides=None, load_on_all_ranks=False) -> dict:
    """Read a checkpoint by `safe_load`.

    fairseq calls `torch.load` by its default, `weights_only`, which refuses names that fairseq itself wrote. With
    `arg_overrides`, settings are replaced by name in all parts of the configuration, as fairseq does.
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
    """Refuse a translator from German to English where English is translated.

    A joined dictionary fits either, so fairseq translates German as if it were English.
    """
    models, cfg, loaded = _load_model_ensemble_and_task(filenames, arg_overrides, task, *args, **kwargs)
    source, target = _languages(loaded.cfg)
    if source != target and (source, target) == _languages(cfg.task)[::-1]:
        raise UserError(f"{filenames[-1]} translates from {target} to {source}. Pass -s {target} -t {source}.")
    return models, cfg, loaded


def _languages(task: Any) -> tuple[str | None, str | None]:
    """Return source and target of a translation; `None` for other tasks."""
    return getattr(task, "source_lang", None), getattr(task, "target_lang", None)


def save_atomically(obj, filename, async_write=False) -> None:
    """Write a checkpoint whole or not at all.

    If writing fails, as on a full disk, fairseq tries three times, each behind what the last attempt left in the file.
    """
    with atomic(Path(filename), overwrite=True) as part:
        torch.save(obj, part)


def copy_atomically(src_path, dst_path, overwrite=False) -> bool:
    """Copy a file whole or not at all.

    fairseq copies over `checkpoint_last.pt`: a run that is killed then leaves half of it, and nothing to resume from.
    """
    with atomic(Path(dst_path), overwrite=True) as part:
        _copy(src_path, str(part), overwrite=True)
    return True


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


def record_dictionaries(cfg: Any, task: Any) -> None:
    """Write the checksums of the dictionaries and classes into `cfg`, which every checkpoint of the run carries."""
    for field, dictionary in DICTIONARIES.items():
        if hasattr(cfg.model, field):
            setattr(cfg.model, field, dictionary_sha256(getattr(task, dictionary)))
    if "labels_sha256" in cfg.task and not getattr(task.cfg, "regression_target", False):
        cfg.task.labels_sha256 = labels_sha256(task.label_dictionary)


def check_dictionaries(model: Any, task: Any, where: str = "", size: int | None = None) -> None:
    """Raise a `UserError` unless the task has the dictionaries whose checksums are in `model`, a configuration."""
    for field, dictionary in DICTIONARIES.items():
        checksum = getattr(model, field, None)
        if checksum is not None or (size is not None and dictionary == "source_dictionary"):
            refuse_other_dictionary(checksum, getattr(task, dictionary), size, where)


def refuse_other_dictionary(
    checksum: str | None, dictionary: Dictionary, size: int | None = None, where: str = ""
) -> None:
    """Raise a `UserError` unless `dictionary` has this checksum, or this size if a checkpoint has none."""
    same = size in (None, len(dictionary)) if checksum is None else checksum == dictionary_sha256(dictionary)
    if not same:
        raise UserError(
            f"The checkpoint{where} was trained with another dictionary than the data's of {len(dictionary)} symbols. "
            "Prepare the data with the checkpoint's vocabulary."
        )


def refuse_other_labels(trained: str | None, labels: Dictionary | None, checkpoint: object, data: object) -> None:
    """Raise a `UserError` if the classes of `data` are not those of the checksum; without one, nothing is compared."""
    if trained is not None and labels is not None and trained != labels_sha256(labels):
        raise UserError(
            f"{checkpoint} was fine-tuned with other labels than those of {data}/label/dict.txt, or in another order. "
            "Prepare the task as it was, or fine-tune again."
        )


def refuse_other_shards(data: str) -> None:
    """Raise a `UserError` if a folder of `data` (`a:b:c`) has another dictionary than the first, which reads all."""
    first, *others = map(Path, split_paths(data))
    for other in others:
        for path in first.glob("dict*.txt"):
            there = other / path.name
            if there.exists() and Dictionary.load(str(there)).symbols != Dictionary.load(str(path)).symbols:
                raise UserError(f"{there} has other symbols than {path}. Prepare all folders with one vocabulary.")


def check_checkpoint(path: str, cfg: Any, task: Any, resumes: bool) -> None:
    """Compare a checkpoint with the run of `cfg` that begins from it, or `resumes` it.

    Raises:
        UserError: it has another dictionary or system, other labels, or no state to resume from.
    """
    state = safe_load(path)
    compare(path, state, cfg.model, task)
    if not resumes:
        return

    if cfg.checkpoint.restore_file == LAST and state.get("last_optimizer_state") is None:
        raise UserError(
            f"{path} has no state of the optimizer, so the run would begin again from its parameters. Pass it as "
            "--finetune-from-model and save elsewhere."
        )
    trained, labels = _saved(state, "task").get("labels_sha256"), getattr(task, "label_dictionary", None)
    refuse_other_labels(trained, labels, path, getattr(task.cfg, "data", None))


def compare(path: str, state: dict, model: Any, task: Any) -> None:
    """Raise a `UserError` if a checkpoint has another dictionary than `task`, or another system than `model`.

    `model` is `cfg.model` of this run. The fields of a system change the function and not always a shape.
    """
    theirs = Namespace(**_saved(state, "model"))
    if not hasattr(model, "dictionary_sha256") or not hasattr(theirs, "dictionary_sha256"):
        return  # a model of fairseq's, whose parameters have other names
    embeddings = (len(rows) for name, rows in state["model"].items() if name.endswith("embed_tokens.weight"))
    check_dictionaries(theirs, task, f" {path}", next(embeddings, None))

    # a field that is younger than the checkpoint had the default of the checkpoint's model
    ARCH_CONFIG_REGISTRY[theirs._name](theirs)
    kind = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[model._name]]
    differing = []
    for field in system_fields(kind):
        saved, here = getattr(theirs, field, "has none"), getattr(model, field)  # an encoder lacks what an ELECTRA has
        # fine-tuning may add segments (as DIET does): their parameters then start at zero
        adds_segments = field == "segment" and saved == "none"
        if saved != here and not adds_segments:
            differing.append(f"{field}: checkpoint {saved}, here {here}")
    if differing:
        raise UserError(
            f"Checkpoint {path} is of another system ({'; '.join(differing)}). Use the checkpoint's values."
        )


def _saved(state: dict, name: str) -> dict[str, Any]:
    """Return a part of the configuration in a checkpoint by field; nothing where fairseq saved it in its old form."""
    part = (state.get("cfg") or {}).get(name)
    return part if isinstance(part, dict) else {}
