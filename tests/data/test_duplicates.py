import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data import duplicates


@settings(deadline=None)
@given(st.lists(st.integers(0, 5) | st.integers(2**64 - 3, 2**64 - 1), min_size=1), st.integers(1, 7))
def test_each_hash_after_the_first_is_marked(hashes, slice_size):
    seen = set()
    expected = [number in seen or bool(seen.add(number)) for number in hashes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "SLICE", slice_size)  # few hashes at a time, so that there are several ranges
        assert duplicates.repeated(np.array(hashes, "<u8")).tolist() == expected
