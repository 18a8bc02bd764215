"""Windows, the window in which a piece counts, and the best spans, against definitions written down once more."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupe.data.answers import Candidate, best_spans, n_best, probabilities
from tupe.data.windows import maximum_context, windows
from tupe.finetune import answers


def test_equal_texts_leave_room_for_others():
    """Spans whose text is the same, as of pieces without characters, count once among the best."""
    places = 40
    made = SimpleNamespace(text=lambda window, first, last: f"{first // 8} {last // 8}")
    sides = [np.arange(places, dtype=np.float32), np.zeros(places, np.float32), *np.ones((2, places), bool)]
    found = answers._of_window(made, 0, sides, places)
    assert len({candidate.text for candidate in found}) == 15  # all that there are
    sides = [np.arange(3 * places, dtype=np.float32), np.zeros(3 * places, np.float32), *np.ones((2, 3 * places), bool)]
    found = answers._of_window(made, 0, sides, 3 * places)
    assert answers.N_BEST <= len({candidate.text for candidate in found}) < len(found)


def test_by_hand():
    context, start, length = windows(np.array([10, 3]), np.array([4, 4]), 2)
    assert context.tolist() == [0, 0, 0, 0, 1]
    assert start.tolist() == [0, 2, 4, 6, 0]
    assert length.tolist() == [4, 4, 4, 4, 3]
    assert maximum_context(10, 4, 2).astype(int).tolist() == [[1, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1]]


@given(st.integers(1, 60), st.integers(1, 20), st.data())
def test_a_piece_counts_where_it_has_most_around_it(pieces, capacity, data):
    stride = data.draw(st.integers(1, capacity))
    starts = [0]
    while starts[-1] + capacity < pieces:
        starts.append(starts[-1] + stride)
    _, start, length = windows(np.array([pieces]), np.array([capacity]), stride)
    assert start.tolist() == starts
    counts = maximum_context(pieces, capacity, stride)
    for piece in range(pieces):
        around = [
            min(piece - s, s + n - 1 - piece) + 0.01 * n if s <= piece < s + n else -1 for s, n in zip(starts, length)
        ]
        where = [window for window, s in enumerate(starts) if 0 <= piece - s < capacity and counts[window, piece - s]]
        assert where == [around.index(max(around))]
    assert counts.sum() == pieces


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_best_spans_are_those_of_all(places, longest, number, seed):
    random = np.random.default_rng(seed)
    first, last = random.integers(-3, 4, (2, places)).astype(np.float32)  # few values: there are ties
    may_begin, may_end = random.random((2, places)) < 0.7
    spans = [
        (-float(first[i] + last[j]), i, j)
        for i in range(places)
        for j in range(i, min(i + longest, places))
        if may_begin[i] and may_end[j]
    ]
    expected = [(-score, i, j) for score, i, j in sorted(spans)[:number]]
    assert best_spans(first, last, may_begin, may_end, longest, number) == expected
    assert best_spans(first, last, may_begin, may_end, longest, 1) == expected[:1]


def test_the_best_of_all_windows():
    candidates = [
        Candidate("a", 1.0),
        Candidate("", 9.0),
        Candidate("b", 2.0),
        Candidate("a", 3.0),
        Candidate("c", 2.0),
    ]
    best = n_best(candidates, 3)
    assert best == [Candidate("a", 3.0), Candidate("b", 2.0), Candidate("c", 2.0)]
    assert n_best([], 3) == probabilities([]) == []
    assert probabilities(best) == pytest.approx(np.exp([3, 2, 2]) / np.exp([3, 2, 2]).sum())
