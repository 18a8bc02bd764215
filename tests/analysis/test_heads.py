"""Names of heads, on correlations whose pattern is known."""

import pytest
import torch

from tupe.analysis.heads import PATTERNS, head_patterns

N = 64
DISTANCE = (torch.arange(N)[None, :] - torch.arange(N)[:, None]).double()  # j - i
MADE = {
    "global": 0.01 * torch.randn(N, N, generator=torch.Generator().manual_seed(0)),
    "local": -10.0 * (DISTANCE.abs() != N // 16),  # the farthest that is near
    "broad": -DISTANCE.abs() / 16,
    "previous": -10.0 * (DISTANCE >= 0),
    "next": -10.0 * (DISTANCE <= 0),
}


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
def test_the_five_patterns(name, reset):
    values = torch.nn.functional.pad(MADE[name], (1, 0, 1, 0), value=50.0) if reset else MADE[name]
    assert head_patterns(values[None], reset) == [name]
