"""The SentencePiece model of a corpus, and fairseq's dictionary with the same symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sentencepiece

from tupe.data.text.special_tokens import SPECIAL_TOKENS
from tupe.errors import UserError
from tupe.files import atomic

# What every dictionary of fairseq begins with, and what its tasks add at the end; all are in the SentencePiece model
# too, so `vocab_size` pieces are `vocab_size` symbols for the model that is trained.
UNKNOWN = "<unk>"
FAIRSEQ_SYMBOLS = ("<s>", "<pad>", "</s>", UNKNOWN)
MASK = "<mask>"
_THREADS = 16  # a fixed number: with another, sums of floats would come out differently


def train(
    lines: Iterable[str],
    model: Path,
    vocab_size: int,
    model_type: str,
    lower_case: bool,
    own_symbols: Sequence[str] = (MASK, *SPECIAL_TOKENS),
) -> None:
    """Trains a SentencePiece model and writes it.

    Args:
        lines: text.
        model: file to write.
        vocab_size: pieces, `<s> <pad> </s> <unk> <mask>` and the special tokens included.
        model_type: `bpe` or `unigram`.
        lower_case: fold case in the model too, so that text that did not go through the stages meets known pieces.
        own_symbols: pieces that stand in the text as they are.

    Raises:
        UserError: if the text is too little for such a vocabulary.
    """
    bos, pad, eos, unk = range(len(FAIRSEQ_SYMBOLS))
    with atomic(model) as unfinished, unfinished.open("wb") as writer:
        try:
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
        except RuntimeError as error:
            reason = str(error).rpartition("] ")[2]
            raise UserError(f"no vocabulary of {vocab_size} pieces can be made of this text: {reason}") from None


def write_dictionary(model: Path, dictionary: Path) -> None:
    """Writes fairseq's `dict.txt`: the pieces, save those that fairseq adds itself.

    fairseq begins a dictionary with its four symbols, and its tasks add `<mask>` at the end; in the file they would be
    there twice. SentencePiece has no counts to tell, so each is 1.
    """
    pieces = [piece for piece in symbols(model) if piece not in (*FAIRSEQ_SYMBOLS, MASK)]
    with atomic(dictionary) as unfinished:
        unfinished.write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")


def symbols(model: Path) -> list[str]:
    """The pieces by their numbers."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [pieces.id_to_piece(number) for number in range(len(pieces))]


class Encoder:
    """Text to pieces separated by spaces, as `fairseq-preprocess` reads them.

    A text that spells `<mask>` gets the unknown symbol there: only training puts a mask.
    """

    def __init__(self, model: Path) -> None:
        self._model = sentencepiece.SentencePieceProcessor(model_file=str(model))
        self._symbols = [UNKNOWN if piece == MASK else piece for piece in symbols(model)]

    def __call__(self, line: str) -> list[str]:
        """The pieces of a line."""
        return [self._symbols[number] for number in self._model.encode(line)]

    def lines(self, lines: list[str]) -> Iterator[list[str]]:
        """The pieces of many lines, faster than one by one."""
        return ([self._symbols[number] for number in numbers] for numbers in self._model.encode(lines, num_threads=1))
