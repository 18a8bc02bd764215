import pytest
import torch
from fairseq import optim
from fairseq.dataclass.configs import CommonConfig
from fairseq.optim import build_optimizer
from omegaconf import OmegaConf

from tupe.patches.optimizers import make_precision_consistent


def parameters(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]


HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("flag", ["--bf16", "--memory-efficient-bf16", "--fp16", "--memory-efficient-fp16", "--amp"])
def test_command_line_trains_on_the_cpu(flag, train, tmp_path):
    train(tmp_path, flag)
    saved = parameters(tmp_path).values()  # in float32 always
    computed_in = [
        name for name, dtype in HALF.items() if all(torch.equal(tensor, tensor.to(dtype).float()) for tensor in saved)
    ]
    assert computed_in == [name for name in HALF if flag.endswith(name)]


def optimizer_of(parameter, name="adam", **scaler):
    """An optimizer; with arguments of a scaler, by AMP, which works on the CPU then."""
    config = {"_name": name, "lr": [0.1], "adam_betas": "(0.9,0.98)", "adam_eps": 1e-6}
    config.update({"tpu": False} if name == "adam" else {})
    optimizer = build_optimizer(OmegaConf.create(config), [parameter])
    if not scaler:
        return optimizer
    amp = optim.AMPOptimizer.__new__(optim.AMPOptimizer)
    amp.fp32_optimizer, amp._grad_scaler, amp.min_loss_scale = optimizer, torch.amp.GradScaler("cpu", **scaler), 1e-4
    return amp


@pytest.mark.parametrize("name", ["adam", "fused_adamw"])
def test_amp_divides_gradients_by_the_scale_once(name):
    moved = []
    for scaler in ({}, {"init_scale": 2.0**20}):
        parameter = torch.nn.Parameter(torch.ones(3))
        optimizer = optimizer_of(parameter, name, **scaler)
        optimizer.backward((parameter * torch.tensor([1e-4, 2e-4, 3e-4])).sum())
        optimizer.clip_grad_norm(1.0)
        optimizer.step()
        moved.append(parameter.detach())
    torch.testing.assert_close(*moved)


def test_amp_goes_on_with_its_scale():
    """And with the updates until it grows, which a run may wait for otherwise than the one before."""
    parameter = torch.nn.Parameter(torch.ones(3))
    before, after = (optimizer_of(parameter, init_scale=2.0**7, growth_interval=window) for window in (4, 6))
    for _ in range(5):
        before.backward(parameter.sum())
        before.clip_grad_norm(1.0)
        before.step()
    after.load_state_dict(before.state_dict())
    assert after.scaler.state_dict() == {**before.scaler.state_dict(), "growth_interval": 6}
    assert after.scaler.get_scale() == 2.0**8


def configured(cpu=True, **given):
    """`common` as `Trainer` gets it."""
    common = OmegaConf.structured(CommonConfig(cpu=cpu, **given))
    make_precision_consistent(common)
    return common


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_memory_efficient_implies_half_precision_under_hydra(precision):
    """fairseq's command line sets both; under Hydra the flag alone would be ignored."""
    assert not configured()[precision]
    assert configured(**{f"memory_efficient_{precision}": True})[precision]


def test_flat_gradients_stay_on_the_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [configured(cpu=cpu, fp16=True).fp16_no_flatten_grads for cpu in (False, True)] == [False, True]
