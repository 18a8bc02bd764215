"""The layer: Shaw's values, Linformer's projection, memory, recomputed and half-precision layers."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.encoder.largest_tensor import LargestTensor
from tests.models.small import KINDS
from tupe.encoder.layer import LengthProjection
from tupe.position import Terms


def test_one_dropout_for_both_parts_of_the_value(build):
    """With values 1 and a^V = -1 everywhere the two parts cancel, whatever is dropped."""
    model = build("shaw_tiny", shaw_values=True, relative_max_distance=2, attention_dropout=0.5).double().train()
    shaw = model.encoder.sentence_encoder.layers[0].self_attn
    torch.nn.init.eye_(shaw.out_proj.weight), torch.nn.init.zeros_(shaw.out_proj.bias)
    torch.nn.init.constant_(shaw.relative.value, -1)
    query, key = torch.randn(2, 2, 3, 7, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = shaw.attend(query, key, torch.ones_like(key), Terms(7), None, None)
    torch.testing.assert_close(out, torch.zeros_like(out))
    torch.nn.init.zeros_(shaw.relative.value)
    out = shaw.attend(query, key, torch.ones_like(key), Terms(7), None, None)
    assert (out - 1).abs().max() > 0.1  # and something is dropped


@pytest.mark.parametrize("values", [False, True])
def test_shaw_makes_no_tensor_larger_than_twice_the_weights(build, values):
    """Above all none of `n x n x d_h`."""
    model = build("shaw_tiny", max_positions=256, encoder_layers=1, shaw_values=values)
    with LargestTensor() as largest:
        model(torch.full((2, 256), 5), features_only=True)[0].sum().backward()
    assert 2 * 3 * 256 * 256 <= largest.elements <= 2 * 3 * 256 * (2 * 256 + 1)


def cost(model, length):
    """Elements of the largest tensor, and multiplications, of a forward and backward pass on one sequence."""
    tokens = torch.full((1, length), 5)
    with LargestTensor() as largest, FlopCounterMode(display=False) as flops:
        model(tokens, features_only=True)[0].sum().backward()
    return largest.elements, flops.get_total_flops()


@pytest.mark.parametrize(("name", "linear"), [("linformer", True), ("diet_abs_lin", True), ("bert_a", False)])
def test_linformers_memory_and_multiplications_grow_linearly(build, name, linear):
    model = build(f"{name}_tiny", max_positions=1024, encoder_layers=1, attention_backend="reference")
    (small, few), (large, many) = cost(model, 512), cost(model, 1024)
    assert (large <= 2 * small and many <= 2 * few) if linear else (large == 4 * small and many > 3.5 * few)


@pytest.mark.parametrize("before", [False, True])
def test_where_dropout_is(build, before):
    model = build("bert_a_tiny", encoder_normalize_before=before, dropout=1, attention_dropout=1, activation_dropout=1)
    encoder, x = model.train().encoder.sentence_encoder, torch.randn(2, 5, 24)
    layer, norm = encoder.layers[0], encoder.layers[0].final_layer_norm
    assert torch.equal(layer.residual(lambda x: x + 1, x, norm), x if before else norm(x))
    torch.nn.init.ones_(layer.fc2.bias), torch.nn.init.ones_(encoder.layernorm_embedding.bias)
    assert (layer.feed_forward(x) == 1).all() and not encoder.embed(x).any()
    assert not layer.self_attn.attend(*torch.randn(3, 2, 3, 5, 8), Terms(5), None, None).any()


@pytest.mark.parametrize("name", ["linformer_tiny", "electra_linformer_tiny"])
def test_more_keys_than_positions(build, name):
    assert LengthProjection(400, 25).weight.std().item() == pytest.approx(1 / 20, rel=0.05)  # E x has the scale of x
    features = build(name, linformer_k=25, max_positions=24)(torch.full((2, 9), 5), features_only=True)[0]
    assert features.shape[:2] == (2, 9) and features.isfinite().all()
    with pytest.raises(AssertionError, match="linformer_k mixes positions"):
        build(name, linformer_k=25, relative="shaw")


@pytest.mark.parametrize("name", ["tupe_r", "shaw", "deberta", "linformer", "rope"])
def test_recomputed_layers_have_the_same_gradients(build, tokens, name):
    gradients = []
    for again in (False, True):
        model = build(f"{name}_tiny", checkpoint_activations=again, dropout=0.1, attention_dropout=0.1).train()
        torch.manual_seed(3)
        model(tokens)[0].square().mean().backward()
        gradients.append({n: p.grad for n, p in model.named_parameters()})
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_half_precision_agrees_with_float64(build, pairs, name, dtype):
    exact, half = build(f"{name}_tiny").double(), build(f"{name}_tiny").to(dtype)
    exact.load_state_dict(half.state_dict())
    expected, logits = exact(pairs)[0], half(pairs)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = half.float()(pairs)[0]
    real = pairs.ne(1)
    bound = {torch.float16: 1e-2, torch.bfloat16: 8e-2}[dtype]
    assert (logits[real].double() - expected[real]).norm() < bound * expected[real].norm()
    assert (mixed[real].double() - expected[real]).norm() < 8e-2 * expected[real].norm()
