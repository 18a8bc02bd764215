"""Linformer and DIET-ABS-LIN: cost linear in the length."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.models.largest_tensor import LargestTensor


def cost(model, length):
    """Elements of the largest tensor, and multiplications, of a forward and backward pass on one sequence."""
    tokens = torch.full((1, length), 5)
    with LargestTensor() as largest, FlopCounterMode(display=False) as flops:
        model(tokens, features_only=True)[0].sum().backward()
    return largest.elements, flops.get_total_flops()


@pytest.mark.parametrize("name", ["linformer_tiny", "diet_abs_lin_tiny"])
def test_memory_and_multiplications_grow_linearly(build, name):
    model = build(name, max_positions=1024, encoder_layers=1, attention_backend="reference")
    (small, few), (large, many) = cost(model, 512), cost(model, 1024)
    assert large <= 2 * small
    assert many <= 2 * few
    full = build("bert_a_tiny", max_positions=1024, encoder_layers=1, attention_backend="reference")
    (small, few), (large, many) = cost(full, 512), cost(full, 1024)
    assert large == 4 * small
    assert many > 3.5 * few


@pytest.mark.parametrize("name", ["linformer_tiny", "electra_linformer_tiny"])
def test_more_keys_than_positions(build, name):
    model = build(name, linformer_k=25, max_positions=24).eval()
    features = model(torch.full((2, 9), 5), features_only=True)[0]
    assert features.shape[:2] == (2, 9) and features.isfinite().all()
