import torch
from hypothesis import given
from hypothesis import strategies as st

from tupe.position import Reset, UntiedAbsolute, reset_cls


@given(st.integers(1, 9), st.integers(1, 4))
def test_reset_cell_by_cell(length, heads):
    v, theta = torch.randn(heads, length, length), torch.randn(2, heads)
    out = reset_cls(v, theta)
    for h in range(heads):
        for i in range(length):
            for j in range(length):
                expected = theta[0, h] if i == 0 else theta[1, h] if j == 0 else v[h, i, j]
                assert out[h, i, j] == expected


def test_theta_is_a_correlation_of_its_own_vectors():
    absolute = UntiedAbsolute(4, 8, 2)
    reset = Reset(2, 8)
    query, key = absolute.project(reset.vectors)  # (H, 2, d_h)
    expected = torch.stack([(query[:, k] * key[:, k]).sum(-1) / 8**0.5 for k in range(2)])
    torch.testing.assert_close(reset(absolute), expected)


def test_scalars_without_projections():
    reset = Reset(3)
    assert [p.shape for p in reset.parameters()] == [(2, 3)]
    torch.testing.assert_close(reset(), reset.scalars)


def test_conventions_differ_only_with_a_relative_term():
    absolute = UntiedAbsolute(4, 8, 2)
    assert Reset(2, 8, "release", relative=False).relative is None
    reset = Reset(2, 8, "release", relative=True)
    paper = Reset(2, 8, "paper", relative=True)
    paper.load_state_dict({"vectors": reset.vectors})
    torch.testing.assert_close(reset(absolute), paper(absolute) + reset.relative)
