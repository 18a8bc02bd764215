"""The loss at each position, and the loss of the same masked tokens in windows of several lengths.

Blocks of a text cannot compare lengths: a token near an end of its block lacks context on that side, and a longer block
has fewer ends. Centred windows can: the windows of each length overlap by half, and the middle half of each is scored,
so that every masked token is scored once at each length, with about as much text on both sides.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import stdtrit
from torch import Tensor
from tqdm import tqdm

from tupe.analysis.checkpoint import Checkpoint, open_encoder
from tupe.analysis.figure import colour, dashes, folded, new_figure, save_figure
from tupe.analysis.text import read_stream, windows
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.util import UserError

_TOKENS = 8192  # of a batch
_MASKED, _REPLACED, _KEPT = 0.15, 0.1, 0.1  # BERT's: of all tokens, and of the masked ones
_STRETCHES = 32  # the figures show means of this many parts of a window

Verdict = Literal["holds", "uses length", "worse"]
Fields = Mapping[str, object]


class TooLong(UserError):
    """A length beyond the positions of a model."""


class PositionLoss(NamedTuple):
    """Losses of masked tokens in sequences of one length."""

    bits: np.ndarray  # sum at each position, `(n,)`, float64
    count: np.ndarray  # masked tokens at each position, `(n,)`

    def mean(self, first: int = 0, stop: int = 1 << 62) -> float:
        """Return bits a masked token at the positions `first .. stop - 1`, NaN where there is none."""
        count = float(self.count[first:stop].sum())
        return float(self.bits[first:stop].sum()) / count if count else math.nan

    def smooth(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the middles of stretches of `width` positions, and the mean of each."""
        starts = np.arange(0, len(self.bits), width)
        return starts + width / 2, np.array([self.mean(start, start + width) for start in starts])

    def rounded(self, width: int) -> tuple[float | None, ...]:
        """Return the mean of each stretch of `width` positions, `None` where no token is masked."""
        return tuple(None if math.isnan(bits) else round(bits, 4) for bits in self.smooth(width)[1].tolist())


class CentredLoss(NamedTuple):
    """Losses of masked tokens in the middle half of windows of one length: the same tokens at every length."""

    bits: np.ndarray  # of each token of the text, by drawing of the masks, `(masks, N)`; 0 where it is not masked
    masked: np.ndarray  # whether each is masked, `(masks, N)`
    by_position: PositionLoss  # of all masked tokens of the windows

    def difference(self, other: "CentredLoss", stretch: int) -> tuple[float, float]:
        """Return the mean of this loss less the other, and half of its 95% interval by Student's t.

        Neighbours share their context, so stretches of `stretch` tokens, and not tokens, are taken as independent.
        """
        starts = np.arange(0, self.bits.shape[1], stretch)
        found, count = (
            np.add.reduceat(part.sum(0), starts) for part in (self.bits - other.bits, self.masked.astype(np.float64))
        )
        mean = found.sum() / count.sum()
        error = np.sqrt(len(starts) / (len(starts) - 1) * ((found - mean * count) ** 2).sum()) / count.sum()
        return float(mean), float(stdtrit(len(starts) - 1, 0.975) * error)


@dataclass(frozen=True)
class LengthLoss:
    """A model's loss at one length, beside its loss at the length of its training, in bits a masked token."""

    bits: float
    difference: float  # from the loss of the same tokens in windows as long as the sequences of training
    half_interval: float  # half of the difference's 95% interval
    # means of up to 32 stretches of the window, `None` (0 in older records) where no token is masked, as at [CLS]
    by_position: tuple[float | None, ...]

    @property
    def verdict(self) -> Verdict:
        """`uses length` if the loss falls for certain, `worse` if it rises for certain, else `holds`."""
        if self.difference + self.half_interval < 0:
            return "uses length"
        return "holds" if self.difference <= self.half_interval else "worse"


@torch.no_grad()
def loss_by_position(
    checkpoint: Checkpoint, data: Path, length: int, sequences: int = 1 << 30, seed: int = 1
) -> PositionLoss:
    """Measure the loss at every position of the corpus's held-out text, cut into sequences of `length` with `[CLS]`.

    15% of the tokens are masked as in training, the same ones for every model and length. A model whose terms are all
    relative takes any length. At most `sequences` sequences are read.

    Raises:
        UserError: for a model without a language-model head, or another corpus.
        TooLong: for a model with fewer positions than `length`.
    """
    encoder = _open(checkpoint, length)
    stream = read_stream(encoder, data)
    words = min(length - 1, len(stream))
    return _by_position(*_losses(encoder, [mask(encoder, stream[: sequences * words], seed)], words, words))


def loss_by_length(
    checkpoint: Path,
    data: Path,
    lengths: Sequence[int],
    *,
    window: bool = False,
    overrides: Fields | None = None,
    longest: int = 0,
    tokens: int = 100_000,
    masks: int = 4,
    seed: int = 1,
) -> tuple[LengthLoss, dict[str, dict[int, LengthLoss]]]:
    """Measure the loss of the same masked tokens of the corpus's held-out text in windows of each length.

    Args:
        window: also with an `attention_window` of half the length of training, unless the model is a Linformer.
        overrides: fields of the position encoding for these windows, in place of those of training.
        longest: longest window of all models that are compared, if it is not among `lengths`; the tokens that it can
            score are those that are scored at every length.
        tokens: number of tokens of the text, at most.
        masks: number of drawings of the masks.

    Returns:
        The loss in windows as long as the sequences of training, with the fields of training; and the losses by
        extension (`none`, `window`) and by length, for the lengths that the model has.

    Raises:
        UserError: for a model without a language-model head, or another corpus.
    """
    encoder = open_encoder(checkpoint)
    trained = encoder.trained_length
    longest = max(longest, trained, *lengths)
    stream = read_stream(encoder, data)[:tokens]
    drawn = [mask(encoder, stream, seed, drawing) for drawing in range(masks)]

    def measure(encoder: TupeLanguageModelEncoder, length: int) -> CentredLoss:
        model = _open(encoder, length)
        return _centred(model.cuda() if torch.cuda.is_available() else model, drawn, length, longest)

    def summary(loss: CentredLoss) -> LengthLoss:
        width = -(-len(loss.by_position.bits) // _STRETCHES)
        bits = float(loss.bits.sum() / loss.masked.sum())
        return LengthLoss(bits, *loss.difference(base, longest), loss.by_position.rounded(width))

    base = measure(encoder, trained)
    found: dict[str, dict[int, LengthLoss]] = {}
    extensions: dict[str, Fields] = {"none": {}}
    if window and not encoder.args.linformer_k:
        extensions["window"] = {"attention_window": trained // 2}
    for extension, change in extensions.items():
        found[extension] = {}
        fields = {**change, **(overrides or {})}
        for length in lengths:
            changed = open_encoder(checkpoint, overrides=fields) if fields else encoder
            try:
                loss = measure(changed, length) if fields or length != trained else base
            except TooLong:
                continue
            found[extension][length] = summary(loss)
    return summary(base), found


def mask(encoder: TupeLanguageModelEncoder, stream: Tensor, seed: int, drawing: int = 0) -> tuple[Tensor, Tensor]:
    """Return the tokens `(N,)` with BERT's masks, and the masked tokens as they were, with padding elsewhere.

    The mask of a token depends on the seed, the drawing and its place in the stream, and not on the sequences into
    which the stream is cut.
    """
    dictionary = encoder.dictionary
    symbol = encoder.sentence_encoder.embed_tokens.num_embeddings - 1  # <mask> is the last
    chosen, kind, word = torch.from_numpy(np.random.default_rng((seed, drawing)).random((len(stream), 3))).unbind(1)
    others = dictionary.nspecial + (word * (symbol - dictionary.nspecial)).long()
    masked = torch.where(kind < _REPLACED, others, torch.where(kind < _REPLACED + _KEPT, stream, symbol))
    return torch.where(chosen < _MASKED, masked, stream), stream.masked_fill(chosen >= _MASKED, dictionary.pad())


def _centred(
    encoder: TupeLanguageModelEncoder, drawn: Sequence[tuple[Tensor, Tensor]], length: int, longest: int
) -> CentredLoss:
    """Return the losses with each of the `drawn` masks, for the tokens that the windows of `longest` score."""
    (stride, skipped), (_, first) = _middle(length), _middle(longest)
    stop = len(drawn[0][0]) - (longest - 1 - first)
    bits, masked = _losses(encoder, drawn, length - 1, stride, f"{length} positions")

    def scored(part: np.ndarray) -> np.ndarray:
        """Join the middles of the windows of each drawing."""
        middle = part.reshape(len(drawn), -1, length)[:, :, 1 + skipped : 1 + skipped + stride]
        return middle.reshape(len(drawn), -1)[:, first - skipped : stop - skipped]

    return CentredLoss(scored(bits), scored(masked), _by_position(bits, masked))


def _middle(length: int) -> tuple[int, int]:
    """Return how many words of a window are scored, and how many there are before them."""
    stride = (length - 1) // 2
    return stride, (length - 1 - stride) // 2


def _by_position(bits: np.ndarray, masked: np.ndarray) -> PositionLoss:
    return PositionLoss(bits.sum(0), masked.sum(0).astype(np.float64))


@torch.no_grad()
def _losses(
    encoder: TupeLanguageModelEncoder,
    drawn: Sequence[tuple[Tensor, Tensor]],
    words: int,
    stride: int,
    progress: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return bits of each masked token of all windows, 0 elsewhere, `(B, n)`, and which are masked.

    `drawn` is what `mask` returned for each drawing. A window has `words` words, and one begins every `stride` words.
    """
    pad, device = encoder.dictionary.pad(), next(encoder.parameters()).device
    texts, targets = zip(*drawn)
    masked = torch.cat([windows(text, words, stride, encoder.dictionary.bos()) for text in texts])
    target = torch.cat([windows(target, words, stride, pad) for target in targets])
    bits, is_masked = torch.zeros(target.shape, dtype=torch.float64), target.ne(pad)
    batches = [part.split(max(1, _TOKENS // (words + 1))) for part in (masked, target, is_masked, bits)]
    for tokens, wanted, where, found in tqdm([*zip(*batches)], progress, leave=False, disable=progress is None or None):
        logits, _ = encoder(tokens.to(device), masked_tokens=where.to(device), num_tokens=tokens.numel())
        losses = F.cross_entropy(logits.float().cpu(), wanted[where], reduction="none") / math.log(2)
        found[where] = losses.double()  # a view of `bits`
    return bits.numpy(), is_masked.numpy()


def _open(checkpoint: Checkpoint, length: int) -> TupeLanguageModelEncoder:
    """Return the encoder, made to take sequences of `length`."""
    encoder = open_encoder(checkpoint)
    name = encoder.shown_as if checkpoint is encoder else checkpoint
    if encoder.discriminates:
        raise UserError(f"{name} is a discriminator, which has no language-model head.")
    inner = encoder.sentence_encoder
    if length <= inner.max_positions:
        return encoder
    ends = length > inner.position_bias.max_positions or encoder.args.linformer_k
    if ends or inner.input_positions is not None:
        raise TooLong(f"{name} has {inner.max_positions} positions, not {length}. `tupe extend-positions` adds some.")
    inner.max_positions = length
    return encoder


def shown(bits: float) -> str:
    """Write a loss, or a dash where no token is masked."""
    return "–" if math.isnan(bits) else f"{bits:.3f}"


def plot_loss_by_position(losses: dict[str, PositionLoss], output: str | Path) -> None:
    """Draw the loss against the position, as means over each 32nd of the longest sequence."""
    figure = new_figure(8, 4)
    axes = figure.subplots()
    width = max(1, max(len(loss.bits) for loss in losses.values()) // _STRETCHES)
    for number, (label, loss) in enumerate(losses.items()):
        axes.plot(*loss.smooth(width), color=colour(number), label=folded(f"{label}: {shown(loss.mean(1))} bits"))
    axes.set(xlabel="position", ylabel="loss (bits a masked token)", xlim=(0, None))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2)
    save_figure(figure, output)


def plot_loss_by_length(found: Mapping[str, Mapping[int, LengthLoss]], output: str | Path) -> None:
    """Draw each model's change from windows of the length of training, and the loss within its longest windows."""
    figure = new_figure(10, 4.5)
    against, within = figure.subplots(1, 2)
    for number, (label, losses) in enumerate(found.items()):
        if not losses:
            continue
        style = {"color": colour(number), "linestyle": dashes(number)}
        lengths = sorted(losses)
        middles = np.array([losses[length].difference for length in lengths])
        halves = np.array([losses[length].half_interval for length in lengths])
        against.plot(lengths, middles, marker="o", markersize=3, label=folded(label), **style)
        against.fill_between(lengths, middles - halves, middles + halves, color=style["color"], alpha=0.15, linewidth=0)
        means = np.array(losses[lengths[-1]].by_position, dtype=float)  # NaN for None
        places = (np.arange(len(means)) + 0.5) * lengths[-1] / len(means)
        within.plot(places, means, **style)
    against.axhline(0, color="black", linewidth=0.8)
    ticks = sorted({length for losses in found.values() for length in losses})
    against.set_xscale("log", base=2)
    against.set_xticks(ticks, [str(length) for length in ticks])
    against.set(xlabel="positions of a window", ylabel="more than at the length of training (bits)")
    within.set(xlabel="position in the longest windows", ylabel="loss (bits a masked token)", xlim=(0, None))
    for axes in (against, within):
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3)
    save_figure(figure, output)
