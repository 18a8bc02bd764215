"""From the scores of first and last tokens to answers: the best spans of a window, and of all windows of a question."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Span(NamedTuple):
    """An answer in a window: the sum of the two scores, and its first and last place there."""

    score: float
    first: int
    last: int


class Candidate(NamedTuple):
    """An answer's text and score."""

    text: str
    score: float


def best_spans(
    first: np.ndarray, last: np.ndarray, may_begin: np.ndarray, may_end: np.ndarray, longest: int, number: int
) -> list[Span]:
    """Return the `number` best spans of a window, of equal ones those that begin, then end earlier.

    All spans are looked at, which the official code does not: it takes the 20 best first and last places, among which
    there may be no pair in order.

    Args:
        first: scores `(T,)` of a span's first place, float32.
        last: of its last.
        may_begin: whether one may begin here, `(T,)`.
        may_end: whether one may end here.
        longest: places of a span at most.
        number: how many.
    """
    begins = np.flatnonzero(may_begin)
    ends = begins[:, None] + np.arange(min(longest, len(last)))  # (S, L)
    inside = ends < len(last)
    ends = np.minimum(ends, len(last) - 1)
    scores = np.where(inside & may_end[ends], first[begins, None] + last[ends], -np.inf).ravel()
    number = min(number, int((scores > -np.inf).sum()))
    if not number:
        return []
    if number == 1:
        chosen = [scores.argmax()]  # of equal ones the first
    else:
        least = np.partition(scores, len(scores) - number)[len(scores) - number]
        candidates = np.flatnonzero(scores >= least)
        chosen = candidates[np.argsort(-scores[candidates], kind="stable")][:number]
    rows, _ = np.divmod(chosen, ends.shape[1])
    return [Span(float(scores[i]), int(begins[row]), int(ends.flat[i])) for i, row in zip(chosen, rows)]


def n_best(candidates: Iterable[Candidate], number: int) -> list[Candidate]:
    """Return the best answers of all windows that have a text, each text once; of equal ones those that come first."""
    best: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: -candidate.score):
        if candidate.text:
            best.setdefault(candidate.text, candidate)
    return list(best.values())[:number]


def probabilities(candidates: list[Candidate]) -> list[float]:
    """Return the probabilities of the candidates, by a softmax over their scores."""
    scores = np.exp(np.array([c.score for c in candidates]) - max((c.score for c in candidates), default=0.0))
    return (scores / scores.sum()).tolist()
