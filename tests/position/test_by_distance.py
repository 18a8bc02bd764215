"""ALiBi's slopes are those of others' code, and its sides differ; `tests/contract` has the equations."""

import pytest
import torch

from tupe.position import AlibiRelative
from tupe.position.alibi import alibi_slopes


@pytest.mark.parametrize("heads", [1, 4, 6, 8, 12, 16])
def test_slopes_are_those_of_others(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom").build_alibi_tensor
    mpt = pytest.importorskip("transformers.models.mpt.modeling_mpt").build_mpt_alibi_tensor
    ours = torch.tensor(alibi_slopes(heads))
    torch.testing.assert_close(bloom(torch.ones(1, 2), heads, torch.float32)[:, 0, 1], ours)
    torch.testing.assert_close(-mpt(heads, 2)[:, 0, 0], ours)


def test_sides():
    distance = torch.arange(-2, 3)
    assert (2**8 * AlibiRelative(1)(distance)).tolist() == [[-2, -1, 0, -1, -2]]
    learned = 2**8 * AlibiRelative(2, relative_sides="learned")(distance)  # has a direction from the first step
    torch.testing.assert_close(learned, -torch.tensor([[32.0, 16, 0, 1, 2], [2, 1, 0, 16, 32]]))
