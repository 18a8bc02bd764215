"""Cut contexts that are too long for a model into windows, and choose the window in which a piece counts."""

from functools import lru_cache

import numpy as np


def windows(tokens: np.ndarray, capacity: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the windows of many contexts: they start at `0, stride, 2 stride, ...`, and the last one reaches the end.

    Args:
        tokens: number of tokens of each context, `(N,)`.
        capacity: largest number of tokens of a window of each context, `(N,)`; at least `stride`.
        stride: tokens from the start of one window to the next.

    Returns:
        For each window its context's place in `tokens`, its first piece, and its number of pieces: `(W,)` each.
    """
    number = 1 + -(-np.maximum(tokens - capacity, 0) // stride)
    context = np.repeat(np.arange(len(tokens)), number)
    start = stride * (np.arange(len(context)) - np.repeat(np.cumsum(number) - number, number))
    return context, start, np.minimum(capacity[context], tokens[context] - start)


@lru_cache(maxsize=1 << 14)
def maximum_context(tokens: int, capacity: int, stride: int) -> np.ndarray:
    """Mark where each token counts: in the window with the largest `min(left, right) + 0.01 length`.

    `left` and `right` are the tokens before and after it in a window (Devlin et al., 2019, run_squad.py); among equal
    windows, the first counts.

    Returns:
        Bool `(windows, capacity)`: whether the piece at a place of a window counts there.
    """
    _, starts, lengths = windows(np.array([tokens]), np.array([capacity]), stride)
    piece = np.arange(tokens)
    latest = np.minimum(piece // stride, len(starts) - 1)
    window = latest[:, None] - np.arange(-(-capacity // stride))[::-1]  # (m, all that a piece may be in), rising
    place, length = piece[:, None] - starts[np.maximum(window, 0)], lengths[np.maximum(window, 0)]
    around = np.minimum(place, length - 1 - place) + 0.01 * length
    around[(window < 0) | (place >= length)] = -1
    best = window[piece, around.argmax(1)]  # (m,)
    counts = np.zeros((len(starts), capacity), dtype=bool)
    counts[best, piece - starts[best]] = True
    return counts
