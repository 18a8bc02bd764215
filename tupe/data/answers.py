"""Choose answers by the scores of first and last tokens, in a window and in all windows of a question."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Span(NamedTuple):
    """An answer in a window: the sum of the two scores, and its first and last place there."""

    score: float
    first: int
    last: int


class Candidate(NamedTuple):
    text: str
    score: float


def best_spans(
    first: np.ndarray, last: np.ndarray, may_begin: np.ndarray, may_end: np.ndarray, longest: int, number: int
) -> list[Span]:
    """Return the `number` best spans of a window; among equal ones, those that start, then end earlier.

    It compares all spans. The official code compares the 20 best first and last places, which may give no pair in
    order. `first` and `last` are the scores `(T,)` of a span's first and last place, float32; `may_begin` and `may_end`
    mark where it may start and end, bool `(T,)`. A span has at most `longest` places.
    """
    begins = np.flatnonzero(may_begin)
    ends = begins[:, None] + np.arange(min(longest, len(last)))  # (S, L)
    inside = ends < len(last)
    ends = np.minimum(ends, len(last) - 1)

    scores = np.where(inside & may_end[ends], first[begins, None] + last[ends], -np.inf).ravel()

    number = min(number, int((scores > -np.inf).sum()))
    if not number:
        return []
    least = np.partition(scores, len(scores) - number)[len(scores) - number]

    candidates = np.flatnonzero(scores >= least)
    chosen = candidates[np.argsort(-scores[candidates], kind="stable")][:number]
    return [Span(float(scores[i]), int(begins[i // ends.shape[1]]), int(ends.flat[i])) for i in chosen]


def n_best(candidates: Iterable[Candidate], number: int) -> list[Candidate]:
    """Return the best answers of all windows that have a text, each text once; among equal ones the first."""
    best: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: -candidate.score):
        if candidate.text:
            best.setdefault(candidate.text, candidate)
    return list(best.values())[:number]


def probabilities(candidates: list[Candidate]) -> list[float]:
    """Return the probabilities of the candidates, by a softmax over their scores."""
    scores = np.exp(np.array([c.score for c in candidates]) - max((c.score for c in candidates), default=0.0))
    return (scores / scores.sum()).tolist()
