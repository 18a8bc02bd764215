"""The optimizer against fairseq's `adam`: the same updates, in every precision, the same checkpoints.

For `amp` see tests/patches/test_optimizers.py.
"""

import pytest
import torch
from fairseq.optim import build_optimizer
from fairseq.optim.adam import Adam
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tupe.optim.fused_adamw import DecoupledAdam
from tupe.patches.optimizers import FP16Optimizer, MemoryEfficientFP16Optimizer

SHAPES = ((7, 5), (11,), (3, 2, 4), ())


def parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]


def steps(optimizer, number, seed=1):
    """Makes steps with random gradients; one parameter has none at every third step."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    generator = torch.Generator().manual_seed(seed)
    for step in range(number):
        for i, p in enumerate(params):
            grad = (0.01 * torch.randn(p.shape, generator=generator)).to(p.dtype)
            p.grad = None if i == 1 and step % 3 == 0 else grad
        optimizer.step()
    return params


def same(actual, expected, **tolerance):
    torch.testing.assert_close(list(actual), list(expected), **(tolerance or {"rtol": 0, "atol": 0}))


@settings(max_examples=15, deadline=None)
@given(
    dtype=st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]),
    lr=st.floats(1e-5, 0.1),
    betas=st.tuples(st.floats(0, 0.99), st.floats(0.5, 0.9999)),
    eps=st.sampled_from([1e-8, 1e-6, 1e-2]),
    weight_decay=st.sampled_from([0.0, 0.01, 0.5]),
)
def test_twenty_steps_agree_with_fairseqs_adam(dtype, lr, betas, eps, weight_decay):
    """A large eps and few steps tell the two places of eps apart."""
    options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
    ours, theirs = (steps(cls(parameters(dtype), **options), 20) for cls in (DecoupledAdam, Adam))
    unit = max(torch.finfo(dtype).eps, 1e-15)
    same(ours, theirs, rtol=20 * unit, atol=20 * unit)


WRAPPERS = {
    "fp32": (build_optimizer, torch.float32),
    "fp16": (FP16Optimizer, torch.float16),
    "bf16": (FP16Optimizer, torch.bfloat16),
    "memory_efficient_fp16": (MemoryEfficientFP16Optimizer, torch.float16),
    "memory_efficient_bf16": (MemoryEfficientFP16Optimizer, torch.bfloat16),
}


def wrapped(name, precision):
    """The optimizer as fairseq's trainer builds it."""
    common = {"fp16_init_scale": 128, "fp16_scale_window": 6, "fp16_scale_tolerance": 0.0, "threshold_loss_scale": None,
              "min_loss_scale": 1e-4, "fp16_no_flatten_grads": True, "bf16": "bf16" in precision}  # fmt: skip
    optimizer = {"_name": name, "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-3, "weight_decay": 0.1, "lr": [0.01]}
    if name == "adam":
        optimizer["tpu"] = False
    cfg = OmegaConf.create({"common": common, "optimizer": optimizer, "optimization": {"update_freq": [1]}})
    build, dtype = WRAPPERS[precision]
    params = parameters(dtype)
    built = build(cfg.optimizer, params) if build is build_optimizer else build.build_optimizer(cfg, params)
    return built, params


def updates(optimizer, params, first, last, set_rate=None):
    """Updates as fairseq's trainer makes them, with gradients that depend on the update alone."""
    set_rate = set_rate or (lambda update: optimizer.set_lr(0.01 * (update + 1) / 20))
    for update in range(first, last):
        generator = torch.Generator().manual_seed(update)
        optimizer.zero_grad()
        set_rate(update)
        loss = sum((p * torch.randn(p.shape, generator=generator).to(p.dtype)).sum() for p in params)
        optimizer.backward(loss)
        optimizer.multiply_grads(1 / 3)
        norm = optimizer.clip_grad_norm(1.0)
        optimizer.step()
    return norm


@pytest.mark.parametrize("precision", WRAPPERS)
def test_in_every_precision(precision):
    (ours, our_params), (theirs, their_params) = (wrapped(name, precision) for name in ("fused_adamw", "adam"))
    norms = [updates(ours, our_params, 0, 20), updates(theirs, their_params, 0, 20)]
    unit = torch.finfo(our_params[0].dtype).eps
    same(our_params, their_params, rtol=4 * unit, atol=4 * unit)
    torch.testing.assert_close(*norms, rtol=1e-5, atol=0)
    assert {key.dtype for s in ours.optimizer.state.values() for key in (s["exp_avg"], s["exp_avg_sq"])} == {
        torch.float32
    }


def test_no_decay_of_what_is_no_matrix():
    """Layer norms and biases, and scalars, go without; the others have it as ever."""
    options = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.5}
    ours, none, all_of_them = (
        steps(DecoupledAdam(parameters(), **{**options, **others}), 5)
        for others in ({"decay_matrices_only": True}, {"weight_decay": 0.0}, {})
    )
    for p, without, decayed in zip(ours, none, all_of_them):
        same([p], [decayed if p.ndim > 1 else without])
        assert not torch.equal(without, decayed)
