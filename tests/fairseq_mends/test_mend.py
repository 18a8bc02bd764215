from types import SimpleNamespace

import numpy as np

from tupe.fairseq_mends.mend import Overlay, mends


def plus_one(original):
    return lambda value: original(value) + 1


def test_wraps_once_and_in_turn():
    def double(value):
        """Twice the value."""
        return 2 * value

    owner = SimpleNamespace(double=double)
    for around in (plus_one, plus_one, lambda original: lambda value: -original(value), plus_one):
        assert mends(owner, "double")(around) is around
    assert owner.double(3) == -7
    assert (owner.double.__name__, owner.double.__doc__) == ("double", "Twice the value.")


def test_overlay_replaces_for_its_owner_alone():
    overlay = Overlay(np, int=int, pi=3)
    assert overlay.pi == 3
    assert overlay.int is int
    assert overlay.random is np.random
    assert np.pi != 3
