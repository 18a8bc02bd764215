"""Theorem 2 of DIET, on numbers; theorem 1 is in test_logits.py."""

import torch
from torch.linalg import matrix_rank

from tupe.position import BucketedRelative, LowRankAbsolute, PositionBias, PositionTable


def test_added_positions_have_the_gradient_of_the_words():
    """DIET, theorem 2: the gradients of X and P in l(g(X + P)) are equal."""
    words, table = torch.nn.Parameter(torch.randn(40, 24).double()), PositionTable(40, 24).double()
    query, key = (words + table(40)) @ torch.randn(2, 24, 24).double()
    (query @ key.mT).softmax(-1).square().sum().backward()
    assert torch.equal(words.grad, table.weight.grad)


def test_neither_term_contains_the_other():
    """The relative term has full rank, which the untied one of rank d_h cannot have; that one is not Toeplitz."""
    relative = BucketedRelative(1).double()
    torch.nn.init.normal_(relative.weight)
    assert matrix_rank(PositionBias(None, relative)(32).bias) == 32
    absolute = PositionBias(LowRankAbsolute(32, 8, 1).double())(32).bias[0]
    assert (absolute.diagonal() - absolute[0, 0]).abs().max() > 1e-4
