import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.corpus.held_out import choose
from tupe.util import UserError

HASHES = st.lists(st.integers(0, 2**64 - 1), min_size=2, unique=True).map(lambda numbers: np.array(numbers, "<u8"))


@settings(deadline=None)
@given(HASHES, st.randoms(use_true_random=False), st.data())
def test_the_same_documents_in_any_order(hashes, rng, data):
    number = data.draw(st.integers(0, len(hashes) - 1))
    order = list(range(len(hashes)))
    rng.shuffle(order)
    none = np.zeros(len(hashes), dtype=bool)
    marked = choose(hashes, none, number)
    assert marked.sum() == number
    assert (choose(hashes[order], none, number) == marked[order]).all()


def test_a_share_is_at_least_one_document_unless_it_is_none():
    hashes, none = np.arange(50, dtype="<u8"), np.zeros(50, dtype=bool)
    assert [choose(hashes, none, share).sum() for share in (0.0, 0.001, 0.1, 0)] == [0, 1, 5, 0]


def test_a_repeated_document_is_never_chosen():
    hashes = np.array([5, 1, 1], "<u8")
    assert choose(hashes, np.array([False, False, True]), 1).tolist() == [False, True, False]


def test_something_must_be_left():
    with pytest.raises(UserError, match="1 of 1 different documents cannot be held out"):
        choose(np.array([1, 1], "<u8"), np.array([False, True]), 0.01)
