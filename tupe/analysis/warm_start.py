"""Read the text for fitting a warm start, and measure the losses before and after it."""

from pathlib import Path

from torch import Tensor

from tupe.analysis.length import loss_by_position, mask
from tupe.analysis.text import read_stream, windows
from tupe.checkpoints.warm_start.start import LEAST, without_order
from tupe.models.tupe import TupeLanguageModelEncoder as Encoder
from tupe.util import UserError


def masked_training_text(old: Encoder, data: Path, number: int, seed: int = 1) -> Tensor:
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


def losses(old: Encoder, new: Encoder, data: Path, sequences: int, seed: int = 1) -> str:
    """Measure the losses on at most `sequences` held-out sequences, and return what a user reads."""

    def loss(model: Encoder) -> float:
        bits, masked = loss_by_position(model, data, old.sentence_encoder.max_positions, sequences, seed)
        return bits.sum() / masked.sum()

    before, no_order, now = map(loss, (old, without_order(old), new))
    said = (
        f"loss on held-out text, bits a masked token: {now:.3f}; before {before:.3f}, and {no_order:.3f} without order"
    )
    if now > no_order:
        said += "\nwarning: that is worse than the old model without any order: its positions are lost"
    return said
