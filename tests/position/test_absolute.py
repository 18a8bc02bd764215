import pytest
import torch

from tupe.position import PositionTable, UntiedAbsolute


@pytest.mark.parametrize(("num_terms", "bias"), [(2, False), (2, True), (4, False)])
def test_untied_is_its_equation(num_terms, bias):
    torch.manual_seed(0)
    heads, width, length = 3, 12, 5
    term = UntiedAbsolute(8, width, heads, num_terms=num_terms, projection_bias=bias).double()
    for parameter in term.parameters():
        torch.nn.init.normal_(parameter)
    p = term.table.weight[:length]
    p = (p - p.mean(-1, keepdim=True)) / (p.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    p = p * term.layer_norm.weight + term.layer_norm.bias
    query = p @ term.query.weight.t() + (term.query.bias if bias else 0)
    key = p @ term.key.weight.t() + (term.key.bias if bias else 0)
    d_h = width // heads
    expected = (
        torch.stack([query[:, h * d_h : (h + 1) * d_h] @ key[:, h * d_h : (h + 1) * d_h].t() for h in range(heads)])
        / (num_terms * d_h) ** 0.5
    )
    torch.testing.assert_close(term(length), expected)
    torch.testing.assert_close(term(length, vectors=term.table.weight[:length]), expected.diagonal(dim1=1, dim2=2).t())


def test_untied_parameter_count_at_base_size():
    """methods.md: two projections of 768 x 768, besides the table and its layer norm; 512 positions."""
    term = UntiedAbsolute(512, 768, 12)
    assert term.query.weight.numel() + term.key.weight.numel() == 1_179_648
    assert sum(p.numel() for p in term.parameters()) == 1_179_648 + 393_216 + 2 * 768


def test_table_is_sliced_from_a_longer_checkpoint_and_a_shorter_does_not_fit():
    longer, table = PositionTable(10, 4), PositionTable(6, 4)
    table.load_state_dict(longer.state_dict())
    torch.testing.assert_close(table.weight, longer.weight[:6])
    with pytest.raises(RuntimeError, match="size mismatch"):
        longer.load_state_dict(table.state_dict())
