"""Read the text for fitting a warm start, and measure the losses before and after it."""

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from tupe.analysis.length import loss_by_position, mask, shown
from tupe.analysis.text import read_stream, windows
from tupe.checkpoints.warm_start.start import LEAST, without_order
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.util import UserError


def masked_training_text(old: TupeLanguageModelEncoder, data: Path, number: int, seed: int = 1) -> Tensor:
    """Read sequences `(B, n)` of a corpus's training text, as long as the model takes them, with masks.

    B is at least `LEAST`, and at most `number`.

    Raises:
        UserError: for another corpus, or less text.
    """
    length = old.sentence_encoder.max_positions
    words = length - 1
    stream = read_stream(old, data, split="train", most=number * words)[: number * words]
    if len(stream) < LEAST * words:
        raise UserError(f"The fit needs {LEAST} sequences of {length} training tokens, and {data} has less text.")
    return windows(mask(old, stream, seed)[0], words, words, old.dictionary.bos())


class Losses(NamedTuple):
    """Bits a masked token of held-out text, after `[CLS]`."""

    old: float
    no_order: float  # the old model with the mean position at every place
    new: float

    @property
    def lines(self) -> list[str]:
        """What a user reads, with a warning where the positions were lost."""
        lines = [
            f"loss on held-out text, bits a masked token: {shown(self.new)}; before {shown(self.old)}, and "
            f"{shown(self.no_order)} without order"
        ]
        if self.new > self.no_order:
            lines.append("warning: that is worse than the old model without any order: its positions are lost")
        return lines


def losses(
    old: TupeLanguageModelEncoder, new: TupeLanguageModelEncoder, data: Path, sequences: int, seed: int = 1
) -> Losses:
    """Measure the losses on at most `sequences` held-out sequences; arguments and errors as `loss_by_position`."""
    length = old.sentence_encoder.max_positions

    def loss(model: TupeLanguageModelEncoder) -> float:
        return loss_by_position(model, data, length, sequences, seed).mean(1)

    return Losses(*map(loss, (old, without_order(old), new)))
