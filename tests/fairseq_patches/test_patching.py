import functools
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tupe.fairseq_patches.patching import Overlay, overlay, overriding, patches, replaced
from tupe.util import UserError


def plus_one(original):
    return lambda value: original(value) + 1


def test_wraps_once_and_in_turn():
    def double(value):
        """Twice the value."""
        return 2 * value

    owner = SimpleNamespace(double=double)
    for around in (plus_one, plus_one, lambda original: lambda value: -original(value), plus_one):
        assert patches(owner, "double", "value")(around) is around
    assert owner.double(3) == -7
    assert (owner.double.__name__, owner.double.__doc__) == ("double", "Twice the value.")


def test_acts_only_for_whom_it_is():
    owner = SimpleNamespace(same=lambda value: value)
    patches(owner, "same", "value", only_for=lambda value: value > 0)(plus_one)
    assert [owner.same(value) for value in (-1, 1)] == [-1, 2]


FAIRSEQ = ModuleType("fairseq.part")
FAIRSEQ.np, FAIRSEQ.function = np, lambda first, second: np.floor(first)


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (patches(FAIRSEQ, "function", "first third"), r"fairseq\.part\.function\(first, third, \.\.\.\)"),
        (patches(FAIRSEQ, "gone", "first"), r"fairseq\.part\.gone\(first, \.\.\.\)"),
        (lambda _: overlay(FAIRSEQ, "np", "function", ceil=1), r"fairseq\.part\.function with np\.ceil"),
        (lambda _: overlay(FAIRSEQ, "np", "Class.method", floor=1), r"fairseq\.part\.Class\.method with np\.floor"),
    ],
)
def test_another_fairseq_is_refused(patch, said):
    with pytest.raises(UserError, match=f"patches {said}, but the installed fairseq-?.* has .*: install fairseq-fixed"):
        patch(plus_one)


class Theirs:
    def step(self, batch, seed):
        pass


@pytest.mark.parametrize(
    ("method", "said"), [(lambda self, batches: None, r"step\(self, batches, "), (lambda self: None, r"stop\(self, ")]
)
def test_a_class_that_overrides_refuses_another_fairseq(method, said):
    class Ours(Theirs):
        def step(self, batch, *others, more=1):
            pass

        def asked(self):
            pass

    assert overriding(Theirs, "asked")(Ours) is Ours
    setattr(Ours, said[:4], method)
    with pytest.raises(UserError, match=rf"Theirs\.{said}"):
        overriding(Theirs, "asked")(Ours)


def test_replaced_for_a_while():
    class Files:
        @staticmethod
        def copy():
            return "theirs"

    with pytest.raises(KeyError), replaced(Files, "copy", staticmethod(functools.partial(str, "ours"))):
        assert Files().copy() == "ours"
        raise KeyError
    assert Files().copy() == "theirs"


def test_overlay_replaces_for_its_owner_alone():
    seen = overlay(FAIRSEQ, "np", "function", floor=int)
    assert isinstance(seen, Overlay)
    assert seen.floor is int
    assert seen.random is np.random
    assert np.floor is not int
