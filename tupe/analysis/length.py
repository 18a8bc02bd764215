"""The loss at each position, in sequences as long as those of training or longer."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import ListDataset, MaskTokensDataset
from torch import Tensor

from tupe.analysis.checkpoint import Checkpoint, open_encoder
from tupe.analysis.figure import colour, new_figure, save_figure
from tupe.analysis.text import read_tokens
from tupe.errors import UserError
from tupe.models.tupe import TupeLanguageModelEncoder

_TOKENS = 8192  # of a batch


class TooLong(UserError):
    """A length that a model has not."""


class PositionLoss(NamedTuple):
    """Losses of masked tokens in sequences of one length."""

    bits: np.ndarray  # sum at each position, `(n,)`, float64
    count: np.ndarray  # masked tokens at each position, `(n,)`

    def mean(self, first: int = 0, stop: int = 1 << 62) -> float:
        """Bits a masked token at the positions `first .. stop - 1`."""
        return float(self.bits[first:stop].sum() / max(self.count[first:stop].sum(), 1))

    def smooth(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Middles of stretches of `width` positions, and the mean of each."""
        starts = np.arange(0, len(self.bits), width)
        return starts + width / 2, np.array([self.mean(start, start + width) for start in starts])


@torch.no_grad()
def loss_by_position(
    checkpoint: Checkpoint, data: Path, length: int, sequences: int = 1 << 30, seed: int = 1
) -> PositionLoss:
    """The masked language model's loss on held-out text cut into sequences of `length`, at every position.

    15% of the tokens are masked as in training, the same ones for every model. A model whose terms are all relative
    takes any length.

    Args:
        checkpoint: of an encoder; a path, or what `open_encoder` returned.
        data: the prepared corpus that it was trained on.
        length: of the sequences, `[CLS]` included.
        sequences: at most so many.
        seed: of the masks.

    Raises:
        UserError: for a model without a language-model head, or another corpus.
        TooLong: for a model with fewer positions than `length`.
    """
    encoder = open_encoder(checkpoint)
    if encoder.discriminates:
        raise UserError(
            f"{checkpoint} is of a discriminator, which has no language-model head: give a masked language model."
        )
    _allow(encoder, length, checkpoint)
    tokens = read_tokens(encoder, data, length, sequences)
    bits, count = torch.zeros(2, tokens.shape[1], dtype=torch.float64)
    device = next(encoder.parameters()).device
    size = max(1, _TOKENS // length)
    for masked, target in zip(*(part.split(size) for part in _masked(encoder, tokens, seed))):
        where = target.ne(encoder.dictionary.pad())
        logits, _ = encoder(masked.to(device), masked_tokens=where.to(device), num_tokens=masked.numel())
        losses = F.cross_entropy(logits.float().cpu(), target[where], reduction="none") / math.log(2)
        position = where.nonzero()[:, 1]
        bits.index_add_(0, position, losses.double())
        count.index_add_(0, position, torch.ones_like(losses, dtype=torch.float64))
    return PositionLoss(bits.numpy(), count.numpy())


def _masked(encoder: TupeLanguageModelEncoder, tokens: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """fairseq's masks: the tokens with them, and what was there, padding elsewhere."""
    dictionary = encoder.dictionary
    sets = MaskTokensDataset.apply_mask(
        ListDataset(list(tokens), [tokens.shape[1]] * len(tokens)),
        dictionary,
        dictionary.pad(),
        encoder.sentence_encoder.embed_tokens.num_embeddings - 1,  # <mask> is the last symbol
        seed=seed,
    )
    return tuple(torch.stack([one[i] for i in range(len(tokens))]) for one in sets)


def _allow(encoder: TupeLanguageModelEncoder, length: int, checkpoint: Checkpoint) -> None:
    inner = encoder.sentence_encoder
    if length <= inner.max_positions:
        return
    ends = inner.position_bias.max_positions != math.inf or encoder.args.linformer_k
    if ends or inner.input_positions is not None:
        raise TooLong(
            f"{checkpoint} has {inner.max_positions} positions, fewer than {length}: make it longer by "
            "`tupe extend-positions`, or ask for a shorter length."
        )
    inner.max_positions = length


def plot_loss_by_position(losses: dict[str, PositionLoss], output: str | Path) -> None:
    """Draw the loss against the position, means of a 32nd of the longest sequence each."""
    figure = new_figure(8, 4)
    axes = figure.subplots()
    width = max(1, max(len(loss.bits) for loss in losses.values()) // 32)
    for number, (label, loss) in enumerate(losses.items()):
        axes.plot(*loss.smooth(width), color=colour(number), label=f"{label}: {loss.mean(1):.3f} bits")
    axes.set(xlabel="position", ylabel="loss (bits a masked token)", xlim=(0, None))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2)
    save_figure(figure, output)
