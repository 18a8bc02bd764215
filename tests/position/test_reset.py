import torch

from tests.position.contract import drawn
from tupe.position import Reset, UntiedAbsolute


def test_theta_is_a_correlation_of_its_own_vectors():
    absolute, reset = drawn(UntiedAbsolute(4, 8, 2)), drawn(Reset(2, 8))
    p = torch.nn.functional.layer_norm(reset.vectors, (8,), absolute.layer_norm.weight, absolute.layer_norm.bias)
    query, key = (side(p).unflatten(-1, (2, 4)) for side in (absolute.query, absolute.key))  # 2 H d_h
    torch.testing.assert_close(reset(absolute), (query * key).sum(-1) / 8**0.5)


def test_conventions_differ_only_with_a_relative_term():
    absolute = UntiedAbsolute(4, 8, 2)
    assert Reset(2, 8, "release", relative=False).relative is None
    reset = Reset(2, 8, "release", relative=True)
    paper = Reset(2, 8, "paper", relative=True)
    paper.load_state_dict({"vectors": reset.vectors})
    torch.testing.assert_close(reset(absolute), paper(absolute) + reset.relative)
