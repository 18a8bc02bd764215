"""Windows, the window in which a piece counts, and the best spans, against definitions written down once more."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tupe.data.windows import best_span, maximum_context, windows


def test_by_hand():
    context, start, length = windows(np.array([10, 3]), np.array([4, 4]), 2)
    assert context.tolist() == [0, 0, 0, 0, 1]
    assert start.tolist() == [0, 2, 4, 6, 0]
    assert length.tolist() == [4, 4, 4, 4, 3]
    assert maximum_context(10, 4, 2).astype(int).tolist() == [[1, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    assert maximum_context(300, 250, 200).sum(1).tolist() == [226, 74]  # the hundredth of the length decides


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


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_best_span_is_that_of_all(places, longest, seed):
    random = np.random.default_rng(seed)
    first, last = random.integers(-3, 4, (2, places)).astype(np.float32)  # few values: there are ties
    may_begin, may_end = random.random((2, places)) < 0.7
    spans = [
        (-float(first[i] + last[j]), i, j)
        for i in range(places)
        for j in range(i, min(i + longest, places))
        if may_begin[i] and may_end[j]
    ]
    score, *place = min(spans, default=(None,))
    assert best_span(first, last, may_begin, may_end, longest) == ((-score, *place) if spans else None)
