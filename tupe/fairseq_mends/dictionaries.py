"""A checkpoint remembers its dictionary: another one of the same size would load without a word and mean nothing."""

from __future__ import annotations

import hashlib

from fairseq import models
from fairseq.data import Dictionary
from fairseq.trainer import Trainer

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends

_REMEDY = "use the dict.txt of the checkpoint (`fairseq-preprocess --srcdict`) and prepare the data again with it"


def dictionary_sha256(dictionary: Dictionary) -> str:
    """Checksum of the symbols in their order, special ones and `<mask>` included (all tasks add the same)."""
    return hashlib.sha256("\n".join(dictionary.symbols).encode()).hexdigest()


def refuse_other_dictionary(checksum: str, dictionary: Dictionary, size: int | None = None, where: str = "") -> None:
    """Raises a `UserError` unless `dictionary` has this checksum; `size` is that of the checkpoint's, if known."""
    if dictionary_sha256(dictionary) == checksum:
        return
    here = len(dictionary)
    how = "same size, other symbols or order" if size in (None, here) else f"{size} symbols, the data's has {here}"
    raise UserError(f"the checkpoint{where} was trained with another dictionary ({how}): {_REMEDY}")


@mends(Trainer, "__init__")
def dictionary_is_recorded(original):
    """Writes the checksum into `cfg.model`, which every checkpoint of the run carries."""

    def __init__(self, cfg, task, *args, **kwargs):
        if hasattr(cfg.model, "dictionary_sha256") and task.source_dictionary is not None:
            cfg.model.dictionary_sha256 = dictionary_sha256(task.source_dictionary)
        original(self, cfg, task, *args, **kwargs)

    return __init__


@mends(models, "build_model")
def dictionary_is_the_same(original):
    """The hub interface and `fairseq-validate` build the model from the checkpoint's configuration."""

    def build_model(cfg, task, *args, **kwargs):
        checksum = getattr(cfg, "dictionary_sha256", None)
        if checksum is not None:
            refuse_other_dictionary(checksum, task.source_dictionary)
        return original(cfg, task, *args, **kwargs)

    return build_model
