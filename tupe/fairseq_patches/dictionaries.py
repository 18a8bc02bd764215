"""A checkpoint remembers its dictionary: another one of the same size would load without a word and mean nothing."""

import hashlib
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask

from tupe.errors import UserError
from tupe.fairseq_patches.scope import before_training
from tupe.files import check_file

_PREPARED_BY = {  # the data of a task; else a corpus
    "TupeQuestionAnsweringTask": "tupe prepare-qa",
    "TupeSentencePredictionTask": "tupe prepare-glue",
    "TranslationTask": "tupe prepare-translation",
}


def prepared_by(task: FairseqTask) -> str:
    """The command that makes the data of a task."""
    return _PREPARED_BY.get(type(task).__name__, "tupe prepare-corpus --vocabulary")


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
    side: str = "",
) -> None:
    """Raises a `UserError` unless `dictionary` has this checksum, or this size if a checkpoint has none."""
    here = len(dictionary)
    same_size = size in (None, here)
    if same_size if checksum is None else checksum == dictionary_sha256(dictionary):
        return
    how = "other symbols or order" if same_size else f"{size} symbols, the data's has {here}"
    raise UserError(
        f"the checkpoint{where} was trained with another {side}dictionary ({how}): give the data that it was trained "
        f"on, or prepare {data} again with its vocabulary ({made_by}; `fairseq-preprocess --srcdict` with its dict.txt)"
    )


def refuse_other_target(cfg: Any, task: FairseqTask, where: str = "") -> None:
    """Raises a `UserError` unless the task has the target dictionary of the checksum in `cfg`, a model's."""
    checksum = getattr(cfg, "target_dictionary_sha256", None)
    if checksum is not None:
        refuse_other_dictionary(checksum, task.target_dictionary, prepared_by(task), where=where, side="target ")


def saved_size(state: dict) -> int | None:
    """How many symbols a checkpoint has: rows of the first embedding."""
    return next((len(rows) for name, rows in state["model"].items() if name.endswith("embed_tokens.weight")), None)


@before_training
def dictionary_is_recorded(cfg, task, model):
    """Writes the checksums into `cfg.model`, which every checkpoint of the run carries."""
    for field, side in (("dictionary_sha256", "source"), ("target_dictionary_sha256", "target")):
        if hasattr(cfg.model, field) and getattr(task, f"{side}_dictionary") is not None:
            setattr(cfg.model, field, dictionary_sha256(getattr(task, f"{side}_dictionary")))
