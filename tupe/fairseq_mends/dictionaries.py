"""A checkpoint remembers its dictionary: another one of the same size would load without a word and mean nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fairseq import models
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import before_training, builds_ours
from tupe.files import check_file

_PREPARED_BY = {  # the data of a task; else a corpus
    "TupeQuestionAnsweringTask": "tupe prepare-qa",
    "TupeSentencePredictionTask": "scripts/prepare_glue.sh",
    "TranslationTask": "tupe prepare-translation",
}


def prepared_by(task: FairseqTask) -> str:
    """The command that makes the data of a task."""
    return _PREPARED_BY.get(type(task).__name__, "scripts/prepare_corpus.sh --vocabulary")


def read_dictionary(path: Path, made_by: str) -> Dictionary:
    """fairseq's dictionary with `<mask>`, as tasks have it. Raises a `UserError` if the file is none."""
    check_file(path, made_by)
    try:
        dictionary = Dictionary.load(str(path))
    except Exception as error:  # fairseq's own, of a line or of bytes that are no text
        raise UserError(f"{path} is no dictionary ({error}): give what {made_by} wrote.") from None
    dictionary.add_symbol("<mask>")
    return dictionary


def dictionary_sha256(dictionary: Dictionary) -> str:
    """Checksum of the symbols in their order, special ones and `<mask>` included (all tasks add the same)."""
    return hashlib.sha256("\n".join(dictionary.symbols).encode()).hexdigest()


def refuse_other_dictionary(
    checksum: str | None,
    dictionary: Dictionary,
    made_by: str,
    size: int | None = None,
    where: str = "",
    data: str = "the data",
) -> None:
    """Raises a `UserError` unless `dictionary` has this checksum, or this size if a checkpoint has none."""
    here = len(dictionary)
    same_size = size in (None, here)
    if same_size if checksum is None else checksum == dictionary_sha256(dictionary):
        return
    how = "other symbols or order" if same_size else f"{size} symbols, the data's has {here}"
    raise UserError(
        f"the checkpoint{where} was trained with another dictionary ({how}): give the data that it was trained on, or "
        f"prepare {data} again with its vocabulary ({made_by}; `fairseq-preprocess --srcdict` with its dict.txt)"
    )


def saved_size(state: dict) -> int | None:
    """How many symbols a checkpoint has: rows of the first embedding."""
    return next((len(rows) for name, rows in state["model"].items() if name.endswith("embed_tokens.weight")), None)


@before_training
def dictionary_is_recorded(cfg, task, model):
    """Writes the checksum into `cfg.model`, which every checkpoint of the run carries."""
    if hasattr(cfg.model, "dictionary_sha256") and task.source_dictionary is not None:
        cfg.model.dictionary_sha256 = dictionary_sha256(task.source_dictionary)


@mends(models, "build_model", "cfg task", only_for=builds_ours)
def dictionary_is_the_same(original):
    """The hub interface and `fairseq-validate` build the model from the checkpoint's configuration."""

    def build_model(cfg, task, *args, **kwargs):
        checksum = getattr(cfg, "dictionary_sha256", None)
        if checksum is not None:
            refuse_other_dictionary(checksum, task.source_dictionary, prepared_by(task))
        return original(cfg, task, *args, **kwargs)

    return build_model
