"""The loss at each position, and the loss of the same masked tokens in windows of several lengths.

Blocks of a text cannot compare lengths: a token near an end of its block lacks context on that side, and a longer block
has fewer ends. Centered windows can: the windows of each length overlap by half, and the middle half of each is scored,
so that every masked token is scored once at each length, with about as much text on both sides.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import stdtrit
from torch import Tensor
from tqdm import tqdm

from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.figure import color_of, dashes, folded, new_figure
from tupe.analysis.text import read_stream, windows
from tupe.models.tupe import TupeLanguageModelEncoder as Encoder

_TOKENS = 8192  # tokens per batch
_MASKED, _REPLACED, _KEPT = 0.15, 0.1, 0.1  # BERT's fractions: of all tokens, and of the masked ones


class LengthLoss(NamedTuple):
    """A model's loss at one length, and its change from the training length, in bits per masked token."""

    bits: float
    difference: float  # from the loss of the same tokens in windows as long as the sequences of training
    half_interval: float  # half of the difference's 95% interval


def longest_input(encoder: Encoder) -> float:
    """Return the length of the longest sequence that a model can take, infinity where all its terms are relative."""
    stack = encoder.sentence_encoder
    has_table = stack.input_positions is not None or encoder.args.linformer_k
    return stack.max_positions if has_table else max(stack.max_positions, stack.position_bias.max_positions)


@torch.no_grad()
def loss_by_position(encoder: Encoder, data: Path, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Measure the loss at every position of the corpus's held-out text, cut into sequences of `length` with `[CLS]`.

    15% of the tokens are masked as in training, the same ones for every model and length.

    Returns:
        The sum of bits, and the number of masked tokens, at each position, `(length,)` each in float64.
    """
    stream = read_stream(encoder, data)
    words = min(length - 1, len(stream))
    bits, masked = _losses(encoder, [mask(encoder, stream)], words, words)
    return bits.sum(0), masked.sum(0).astype(np.float64)


def loss_by_length(
    checkpoint: Path,
    data: Path,
    lengths: Sequence[int],
    *,
    window: bool = False,
    longest: int = 0,
    tokens: int = 100_000,
    masks: int = 4,
) -> dict[str, dict[int, LengthLoss]]:
    """Measure the loss of the same masked tokens of the corpus's held-out text in windows of each length.

    Args:
        lengths: lengths of windows; the training length is always measured too.
        window: also measure an `attention_window` of half the training length; not for Linformers or windowed models.
        longest: longest window of all models that are compared, if it is not among `lengths`. Every length scores only
            the tokens that this window can score.
        tokens: maximum number of tokens of the text.
        masks: number of random draws of the masks.

    Returns:
        The losses by extension (`none`, `window`) and by length, for the lengths that the model can take.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder = open_encoder(checkpoint).to(device)
    trained = encoder.trained_length
    longest = max(longest, trained, *lengths)
    stream = read_stream(encoder, data)[:tokens]
    drawn = [mask(encoder, stream, drawing) for drawing in range(masks)]
    models = {"none": encoder}
    if window and not (encoder.args.linformer_k or encoder.args.attention_window):
        models["window"] = open_encoder(checkpoint, attention_window=trained // 2).to(device)
    base, masked = _centered_losses(encoder, drawn, trained, longest)
    found: dict[str, dict[int, LengthLoss]] = {}
    for extension, model in models.items():
        found[extension] = {}
        for length in sorted(n for n in {trained, *lengths} if n <= longest_input(encoder)):
            bits, _ = _centered_losses(model, drawn, length, longest)
            mean = float(bits.sum() / masked.sum())
            found[extension][length] = LengthLoss(mean, *mean_and_half_interval(bits - base, masked, longest))
    return found


def mean_and_half_interval(values: np.ndarray, masked: np.ndarray, stretch: int) -> tuple[float, float]:
    """Return the mean of some values of masked tokens, and half of its 95% interval by Student's t.

    Neighboring tokens share their context, so stretches of `stretch` tokens are taken as independent instead.

    Args:
        values: of each token of the text, by drawing of the masks, `(masks, N)`; 0 where it is not masked.
        masked: whether each is masked, `(masks, N)`.
    """
    starts = np.arange(0, values.shape[1], stretch)
    found, count = (np.add.reduceat(part.sum(0), starts) for part in (values, masked.astype(np.float64)))
    mean = found.sum() / count.sum()
    error = np.sqrt(len(starts) / (len(starts) - 1) * ((found - mean * count) ** 2).sum()) / count.sum()
    return float(mean), float(stdtrit(len(starts) - 1, 0.975) * error)


def mask(encoder: Encoder, stream: Tensor, drawing: int = 0) -> tuple[Tensor, Tensor]:
    """Return the tokens `(N,)` with BERT's masks, and the original masked tokens, with padding elsewhere.

    The mask of a token depends on the drawing and its place in the stream, and not on the sequences into
    which the stream is cut.
    """
    dictionary = encoder.dictionary
    symbol = encoder.sentence_encoder.embed_tokens.num_embeddings - 1  # <mask> is the last
    chosen, kind, word = torch.from_numpy(np.random.default_rng((1, drawing)).random((len(stream), 3))).unbind(1)
    others = dictionary.nspecial + (word * (symbol - dictionary.nspecial)).long()
    masked = torch.where(kind < _REPLACED, others, torch.where(kind < _REPLACED + _KEPT, stream, symbol))
    return torch.where(chosen < _MASKED, masked, stream), stream.masked_fill(chosen >= _MASKED, dictionary.pad())


def _centered_losses(
    encoder: Encoder, drawn: Sequence[tuple[Tensor, Tensor]], length: int, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return bits of each masked token, 0 elsewhere, and which are masked, `(masks, N)`, in windows of `length`.

    The `N` tokens are those that the windows of `longest` score.
    """
    (stride, skipped), (_, first) = _middle(length), _middle(longest)
    stop = len(drawn[0][0]) - (longest - 1 - first)

    def scored(part: np.ndarray) -> np.ndarray:
        """Join the middles of the windows of each drawing."""
        middle = part.reshape(len(drawn), -1, length)[:, :, 1 + skipped : 1 + skipped + stride]
        return middle.reshape(len(drawn), -1)[:, first - skipped : stop - skipped]

    bits, masked = map(scored, _losses(encoder, drawn, length - 1, stride))
    return bits, masked


def _middle(length: int) -> tuple[int, int]:
    """Return how many tokens of a window are scored, and how many precede them."""
    stride = (length - 1) // 2
    return stride, (length - 1 - stride) // 2


@torch.no_grad()
def _losses(
    encoder: Encoder, drawn: Sequence[tuple[Tensor, Tensor]], words: int, stride: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return bits of each masked token of all windows, 0 elsewhere, `(B, n)`, and which are masked.

    `drawn` has the results of `mask`. A window has `words` tokens, and one starts every `stride` tokens.
    """
    stack = encoder.sentence_encoder
    if words < longest_input(encoder):
        stack.max_positions = max(stack.max_positions, words + 1)
    pad, device = encoder.dictionary.pad(), next(encoder.parameters()).device
    texts, targets = zip(*drawn)
    masked = torch.cat([windows(text, words, stride, encoder.dictionary.bos()) for text in texts])
    target = torch.cat([windows(target, words, stride, pad) for target in targets])
    bits, is_masked = torch.zeros(target.shape, dtype=torch.float64), target.ne(pad)
    batches = [part.split(max(1, _TOKENS // (words + 1))) for part in (masked, target, is_masked, bits)]
    for tokens, wanted, where, found in tqdm([*zip(*batches)], f"{words + 1} positions", leave=False, disable=None):
        logits, _ = encoder(tokens.to(device), masked_tokens=where.to(device), num_tokens=tokens.numel())
        losses = F.cross_entropy(logits.float().cpu(), wanted[where], reduction="none") / math.log(2)
        found[where] = losses.double()  # a view of `bits`
    return bits.numpy(), is_masked.numpy()


def plot_loss_by_length(found: Mapping[str, Mapping[int, LengthLoss]]):
    """Draw each model's change from windows of the length of training, with its 95% interval."""
    figure = new_figure(7, 4.5)
    axes = figure.subplots()
    for number, (label, losses) in enumerate(found.items()):
        lengths = sorted(losses)
        middles = [losses[length].difference for length in lengths]
        halves = [losses[length].half_interval for length in lengths]
        style = {"color": color_of(number), "linestyle": dashes(number), "marker": "o", "markersize": 3, "capsize": 3}
        axes.errorbar(lengths, middles, halves, label=folded(label), **style)
    axes.axhline(0, color="black", linewidth=0.8)
    ticks = sorted({length for losses in found.values() for length in losses})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(length) for length in ticks])
    axes.set(xlabel="positions of a window", ylabel="change from the length of training (bits)")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3)
    return figure
