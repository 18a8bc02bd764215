"""Shares of the learning rate by layer, on every optimizer and in every precision."""

import copy
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

from tests.optim.test_fused_adamw import WRAPPERS, parameters, same, steps, updates, wrapped
from tupe.models.summary import meta_model
from tupe.optim.fused_adamw import DecoupledAdam
from tupe.optim.layer_decay import shares
from tupe.optim.linear_decay import LinearDecayConfig, LinearDecaySchedule

#: In the order of `parameters()` of tests/optim/test_fused_adamw.py, as of a model of two layers.
NAMES = [
    "module.encoder.sentence_encoder.layers.0.fc1.weight",
    "encoder.sentence_encoder.layers.1.fc1.bias",
    "encoder.sentence_encoder.embed_tokens.weight",
    "classification_heads.glue.dense.weight",
]


def schedule(optimizer, **fields):
    defaults = {"lr": [0.02], "max_update": 20, "max_epoch": 0, "update_freq": [1], "skip_remainder_batch": False}
    cfg = LinearDecayConfig(**{**defaults, "layer_decay": 0.5, **fields})
    built = LinearDecaySchedule(OmegaConf.structured(cfg), optimizer)
    model = SimpleNamespace(named_parameters=lambda: [(name, torch.nn.Parameter()) for name in NAMES])
    built.group_parameters(model, torch.nn.Module())
    return built


def test_share_of_every_parameter():
    """TUPE-R of two layers at decay 0.8: whatever is below the first layer has the power 4, a layer 3 and 2."""
    model = meta_model("tupe_r_tiny", 50, 16, encoder_layers=2, encoder_normalize_before=True)
    found = shares([name for name, _ in model.named_parameters()], 0.8)
    below = {"embed_tokens.weight", "layernorm_embedding.weight", "layernorm_embedding.bias", "position_bias."}
    for name, share in found.items():
        inside = name.partition("encoder.sentence_encoder.")[2]
        power = 0 if not inside else {"layers.0": 3, "layers.1": 2, "layer_no": 2}.get(inside[:8], 4)
        if power == 4:
            assert inside in below or inside.startswith("position_bias.")
        assert share == pytest.approx(0.8**power), name
    assert len(set(found.values())) == 4


@pytest.mark.parametrize("name", ["adam", "fused_adamw"])
@pytest.mark.parametrize("precision", WRAPPERS)
def test_every_parameter_moves_by_its_share(name, precision):
    """Adam's first step without an epsilon is the rate itself, whatever the gradient."""
    optimizer, params = wrapped(name, precision)
    for group in optimizer.param_groups:
        group.update(eps=1e-12, weight_decay=0.0)
    before = [p.detach().float().clone() for p in params]
    rates = schedule(optimizer, warmup_updates=1)
    rates.step_update(1)
    assert optimizer.get_lr() == 0.02  # of the head, which is logged
    for p in params:
        p.grad = torch.full_like(p, 0.5)
    optimizer._needs_sync = True
    optimizer.step()
    moved = [(was - p.detach().float()).abs().median().item() for was, p in zip(before, params)]
    if precision == "fp32":
        assert moved == pytest.approx([0.02 * 0.125, 0.02 * 0.25, 0.02 * 0.0625, 0.02], rel=1e-4)
    else:
        by_param = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
        masters = getattr(optimizer, "fp32_params", params)
        assert [by_param[id(p)] for p in masters] == pytest.approx([0.0025, 0.005, 0.00125, 0.02])


@pytest.mark.parametrize("decay", [1.0, 0.5])
@pytest.mark.parametrize("name", ["adam", "fused_adamw"])
@pytest.mark.parametrize("precision", WRAPPERS)
def test_resumed_bit_for_bit(name, precision, decay):
    whole, params = wrapped(name, precision)
    rates = schedule(whole, layer_decay=decay)
    updates(whole, params, 0, 7, rates.step_update)
    state = copy.deepcopy(whole.state_dict())
    resumed, own = wrapped(name, precision)
    again = schedule(resumed, layer_decay=decay)
    with torch.no_grad():
        for p, value in zip(own, params):
            p.copy_(value)
    for p32, p in zip(getattr(resumed, "fp32_params", ()), params):
        p32.data.copy_(p)
    resumed.load_state_dict(state, {})
    updates(whole, params, 7, 14, rates.step_update)
    updates(resumed, own, 7, 14, again.step_update)
    same(own, params)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_adam_without_bias_correction(dtype):
    """`p <- p - lr weight_decay p - lr m / (sqrt(v) + eps)`, ELECTRA's, in float64."""
    options = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-3, "weight_decay": 0.1}
    ours = steps(DecoupledAdam(parameters(dtype), **options, no_bias_correction=True), 12)
    expected = [p.detach().double() for p in parameters(dtype)]
    first, second = ([torch.zeros_like(p) for p in expected] for _ in range(2))
    generator = torch.Generator().manual_seed(1)
    for step in range(12):
        for i, p in enumerate(expected):
            grad = (0.01 * torch.randn(p.shape, generator=generator)).to(dtype).double()
            if i == 1 and step % 3 == 0:
                continue
            first[i] = 0.9 * first[i] + 0.1 * grad
            second[i] = 0.99 * second[i] + 0.01 * grad**2
            p -= 0.01 * 0.1 * p + 0.01 * first[i] / (second[i].sqrt() + 1e-3)
            p.copy_(p.to(dtype))  # rounded once an update
    unit = max(torch.finfo(dtype).eps, 1e-14)
    same([p.double() for p in ours], expected, rtol=8 * unit, atol=8 * unit)
