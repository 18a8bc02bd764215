"""Shaw's relative positions in the layer: memory, and the value term."""

import pytest
import torch

from tests.models.largest_tensor import LargestTensor
from tupe.models.shaw import attention_with_relative_values
from tupe.position import ShawRelative


def inputs(batch=2, heads=3, length=7, width=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(batch, heads, length, width, generator=generator, dtype=dtype) for _ in range(3)]


def attend(query, key, value, relative, mask=None, **options):
    options = {"scale": 0.5, "dropout_p": 0.0, "training": False, **options}
    bias = relative(query, options["scale"])
    return attention_with_relative_values(query, key, value, bias, relative, key_padding_mask=mask, **options)


def test_value_term_is_its_equation():
    query, key, value = inputs()
    relative = ShawRelative(4, max_distance=2, values=True).double()
    for table in relative.parameters():
        torch.nn.init.normal_(table)
    out = attend(query, key, value, relative)

    def far(i, j):
        return max(-2, min(2, j - i)) + 2

    for b, h, i in [(b, h, i) for b in range(2) for h in range(3) for i in range(7)]:
        logits = torch.stack([0.5 * query[b, h, i] @ (key[b, h, j] + relative.key[far(i, j)]) for j in range(7)])
        weights = logits.softmax(0)
        expected = sum(weights[j] * (value[b, h, j] + relative.value[far(i, j)]) for j in range(7))
        torch.testing.assert_close(out[b, h, i], expected)


def test_gradients_of_the_value_term():
    query, key, value = (x.requires_grad_() for x in inputs(1, 2, 4, 2))
    relative = ShawRelative(2, max_distance=2, values=True).double()
    names, tables = zip(*relative.named_parameters())

    def function(query, key, value, *tables):
        return torch.func.functional_call(
            Attend(relative), {f"relative.{n}": t for n, t in zip(names, tables)}, (query, key, value)
        )

    assert torch.autograd.gradcheck(function, (query, key, value, *tables))


class Attend(torch.nn.Module):
    def __init__(self, relative):
        super().__init__()
        self.relative = relative

    def forward(self, query, key, value):
        return attend(query, key, value, self.relative)


def test_zero_value_vectors_are_plain_shaw(build, tokens):
    plain, with_values = build("shaw_tiny"), build("shaw_tiny", shaw_values=True)
    state = plain.state_dict()
    for layer in range(2):
        name = f"encoder.sentence_encoder.layers.{layer}.self_attn.relative."
        state[name + "value"] = torch.zeros_like(state[name + "key"])
    with_values.load_state_dict(state)
    with torch.no_grad():
        torch.testing.assert_close(with_values(tokens)[0], plain(tokens)[0])


def test_one_dropout_for_both_parts_of_the_value():
    """With values 1 and a^V = -1 everywhere the two parts cancel, whatever is dropped."""
    query, key, value = inputs(dtype=torch.float32)
    relative = ShawRelative(4, values=True)
    torch.nn.init.constant_(relative.value, -1)
    out = attend(query, key, torch.ones_like(value), relative, dropout_p=0.5, training=True)
    torch.testing.assert_close(out, torch.zeros_like(out))
    torch.nn.init.zeros_(relative.value)
    out = attend(query, key, torch.ones_like(value), relative, dropout_p=0.5, training=True)
    assert (out - 1).abs().max() > 0.1  # and something is dropped


@pytest.mark.parametrize("values", [False, True])
def test_no_tensor_larger_than_twice_the_weights(build, values):
    """Above all none of `n x n x d_h`."""
    model = build("shaw_tiny", max_positions=256, encoder_layers=1, shaw_values=values)
    with LargestTensor() as largest:
        model(torch.full((2, 256), 5), features_only=True)[0].sum().backward()
    assert 2 * 3 * 256 * 256 <= largest.elements <= 2 * 3 * 256 * (2 * 256 + 1)
