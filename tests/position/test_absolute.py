import pytest
import torch

from tests.position.contract import drawn
from tupe.position import UntiedAbsolute


@pytest.mark.parametrize(("num_terms", "bias"), [(2, False), (2, True), (4, False)])
def test_untied_is_its_equation(num_terms, bias):
    heads, width, length = 3, 12, 5
    term = drawn(UntiedAbsolute(8, width, heads, num_terms=num_terms, projection_bias=bias).double())
    p = term.table.weight[:length]
    p = (p - p.mean(-1, keepdim=True)) / (p.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    p = p * term.layer_norm.weight + term.layer_norm.bias
    query = p @ term.query.weight.t() + (term.query.bias if bias else 0)
    key = p @ term.key.weight.t() + (term.key.bias if bias else 0)
    d_h = width // heads
    columns = [slice(h * d_h, (h + 1) * d_h) for h in range(heads)]
    expected = torch.stack([query[:, c] @ key[:, c].t() for c in columns]) / (num_terms * d_h) ** 0.5
    for found in (term(length), term(length, term.table.weight[:length])):
        torch.testing.assert_close(found[0] @ found[1].mT, expected)
