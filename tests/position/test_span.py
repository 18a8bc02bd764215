"""Queries that are not the first positions, and keys that are not as many: cells of the full matrix."""

import pytest
import torch

from tupe.position import (
    BucketedRelative,
    ClippedRelative,
    FreeAbsolute,
    KerpleRelative,
    LowRankAbsolute,
    ParametricRelative,
    PositionBias,
    Reset,
    Rotary,
    StructuredBias,
    UnbinnedRelative,
    UntiedAbsolute,
)
from tupe.util import UserError

TERMS = {
    "untied": lambda: PositionBias(UntiedAbsolute(16, 8, 2, projection_bias=True)),
    "low rank": lambda: PositionBias(LowRankAbsolute(16, 3, 2)),
    "free": lambda: PositionBias(FreeAbsolute(16, 2), ClippedRelative(2, 3)),
    "cross": lambda: PositionBias(UntiedAbsolute(16, 8, 2, num_terms=4), UnbinnedRelative(2, 16), cross=True),
    "T5": lambda: PositionBias(None, BucketedRelative(2, 8, 12)),
    "T5's decoder": lambda: PositionBias(None, BucketedRelative(2, 8, 12, bidirectional=False)),
    "parametric": lambda: PositionBias(None, ParametricRelative(8, 2, 4, 5)),
    "T5, rotated": lambda: PositionBias(None, BucketedRelative(2, 8, 12), rotation=Rotary(8)),
    "KERPLE-log": lambda: PositionBias(None, KerpleRelative(2), Reset(2)),
    "TUPE-R": lambda: PositionBias(UntiedAbsolute(16, 8, 2), BucketedRelative(2), Reset(2, 8, "release", True)),
    "DIET-REL, reset": lambda: PositionBias(None, UnbinnedRelative(2, 16), Reset(2)),
    "free, reset": lambda: PositionBias(FreeAbsolute(16, 2), None, Reset(2)),
}


@pytest.fixture(params=TERMS.values(), ids=TERMS)
def position(request):
    torch.manual_seed(0)
    position = request.param()
    for parameter in position.parameters():
        torch.nn.init.normal_(parameter)
    return position


def whole(terms, length):
    """The terms with a dense bias."""
    return terms._replace(bias=terms.bias.dense(length)) if isinstance(terms.bias, StructuredBias) else terms


@pytest.mark.parametrize("evaluation", [False, True])
@pytest.mark.parametrize("span", [(5, 9, 0), (9, 4, 0), (1, None, 6), (3, None, 4), (2, 11, 5)])
def test_is_a_slice_of_the_full_matrix(position, span, evaluation):
    length, num_keys, offset = span
    with torch.set_grad_enabled(not evaluation):
        position.train(not evaluation)
        full = position(16)
        keys = offset + length if num_keys is None else num_keys
        for structured in (False, True):
            terms = position(length, structured=structured, num_keys=num_keys, query_offset=offset)
            bias, query, key, rotation, *_ = whole(terms, keys)
            if full.bias is not None:
                torch.testing.assert_close(bias, full.bias[:, offset : offset + length, :keys])
            if full.query is not None:
                torch.testing.assert_close(query, full.query[:, offset : offset + length])
                torch.testing.assert_close(key, full.key[:, :keys])
            if full.rotation is not None:
                torch.testing.assert_close(rotation, full.rotation[:, offset : offset + length], rtol=0, atol=0)
    assert (bias is None) == (full.bias is None)
    assert bias is None or bias.requires_grad != evaluation


@torch.no_grad()
def test_decoding_step_by_step_computes_once(position, monkeypatch):
    full, calls, compute = position(16), [], position.compute
    monkeypatch.setattr(position, "compute", lambda *given: calls.append(given) or compute(*given))
    position.eval()
    position(16, structured=True)
    for step in range(16):
        row = position(1, query_offset=step)
        if full.bias is not None:
            torch.testing.assert_close(row.bias, full.bias[:, step : step + 1, : step + 1])
    assert len(calls) <= 2  # the first step is a plain one


def test_keys_that_are_no_positions_are_all_there():
    position = PositionBias(LowRankAbsolute(16, 3, 2, num_keys=5))
    full = position(16).bias
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            position.train(mode)
            torch.testing.assert_close(position(3, query_offset=8).bias, full[:, 8:11])
            torch.testing.assert_close(position(3, num_keys=2).bias, full[:, :3])


@pytest.mark.parametrize("name", ["untied", "low rank", "free", "cross", "DIET-REL, reset"])
@pytest.mark.parametrize("span", [{"query_offset": 14}, {"num_keys": 17}])
def test_beyond_the_last_position(name, span):
    with pytest.raises(UserError, match="17 tokens is longer than the 16 positions"):
        TERMS[name]()(3, **span)
