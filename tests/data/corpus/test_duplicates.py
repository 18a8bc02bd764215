import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tupe.data.corpus import duplicates


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5) | st.integers(2**64 - 3, 2**64 - 1), max_size=9)), st.integers(1, 7))
def test_each_hash_after_the_first_is_marked(tmp_path_factory, hashes, slice_size):
    folder = tmp_path_factory.mktemp("hashes")
    assume(any(hashes))
    files = [folder / str(number) for number in range(len(hashes))]
    for file, numbers in zip(files, hashes):
        np.array(numbers, dtype="<u8").tofile(file)
    seen = set()
    expected = [number in seen or bool(seen.add(number)) for numbers in hashes for number in numbers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "SLICE", slice_size)  # few hashes at a time, so that there are several slices
        assert duplicates.repeated(files, folder / "marks.npy").tolist() == expected
