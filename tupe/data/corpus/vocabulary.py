"""The SentencePiece model of a corpus, and fairseq's dictionary with the same symbols."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from tupe.data.text.special_tokens import SPECIAL_TOKENS
from tupe.util import atomic

# The symbols with which every dictionary of fairseq begins, and the one that its tasks add. The SentencePiece model has
# them too, so `vocab_size` pieces are `vocab_size` symbols for the model that is trained.
UNKNOWN = "<unk>"
FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", UNKNOWN)
UNKNOWN_NUMBER = FAIRSEQ_SYMBOLS.index(UNKNOWN)
MASK = "<mask>"
#: Text that `train` should get, in bytes: some 1 GB of memory.
SAMPLE_BYTES = {"bpe": 100 << 20, "unigram": 48 << 20}
_THREADS = 16  # a fixed number: with another, sums of floats would come out differently


def train(
    lines: Iterable[str],
    model: Path,
    vocab_size: int,
    model_type: str,
    lower_case: bool,
    own_symbols: Sequence[str] = (MASK, *SPECIAL_TOKENS),
) -> None:
    """Train a SentencePiece model of type `bpe` or `unigram` and write it.

    `vocab_size` counts `<s> <pad> </s> <unk>` and `own_symbols`, which are taken from the text whole. With `lower_case`
    the model folds case, so that it knows the pieces of text that is not lower-cased.
    """
    bos, pad, eos, unk = range(len(FAIRSEQ_SYMBOLS))
    with atomic(model, overwrite=True) as part, part.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=writer,
            vocab_size=vocab_size,
            model_type=model_type,
            bos_id=bos,
            pad_id=pad,
            eos_id=eos,
            unk_id=unk,
            user_defined_symbols=list(own_symbols),
            normalization_rule_name="nmt_nfkc_cf" if lower_case else "nmt_nfkc",
            num_threads=_THREADS,
            minloglevel=2,
        )


def write_dictionary(model: Path, dictionary: Path) -> None:
    """Write fairseq's `dict.txt`: the pieces, save those that fairseq adds itself.

    fairseq begins a dictionary with its four symbols, and its tasks add `<mask>` at the end; in the file they would be
    there twice. SentencePiece has no counts to tell, so each is 1.
    """
    listed = dictionary_symbols(model)[len(FAIRSEQ_SYMBOLS) :]
    dictionary.write_text("".join(f"{piece} 1\n" for piece in listed), encoding="utf-8")


def open_model(model: Path) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_file=str(model))


def dictionary_symbols(model: Path) -> list[str]:
    """Return the symbols of fairseq's dictionary of a model, by their numbers."""
    return [*FAIRSEQ_SYMBOLS, *(piece for piece in symbols(model) if piece not in (*FAIRSEQ_SYMBOLS, MASK))]


def read_symbols(dictionary: Path) -> list[str]:
    """Return the symbols of fairseq's dictionary in a file of ours, by their numbers."""
    lines = dictionary.read_text(encoding="utf-8").split("\n")
    return [*FAIRSEQ_SYMBOLS, *(line.rpartition(" ")[0] for line in lines if line)]


def symbols(model: Path) -> list[str]:
    """Return the pieces by their numbers."""
    pieces = open_model(model)
    return [pieces.id_to_piece(number) for number in range(len(pieces))]
