from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import CommonConfig
from omegaconf import OmegaConf

from tupe.errors import UserError
from tupe.fairseq_mends.precision import consistent_precision

FLAGS = ("fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16")


def parameters(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]


HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.mark.parametrize("flag", ["--bf16", "--memory-efficient-bf16", "--fp16", "--memory-efficient-fp16", "--amp"])
def test_command_line_trains_on_the_cpu(flag, train, tmp_path, caplog):
    train(tmp_path, flag)
    saved = parameters(tmp_path).values()  # in float32 always
    computed_in = [
        name for name, dtype in HALF.items() if all(torch.equal(tensor, tensor.to(dtype).float()) for tensor in saved)
    ]
    assert computed_in == [name for name in HALF if flag.endswith(name)]
    assert ("amp has no effect on the CPU" in caplog.text) == (flag == "--amp")


@pytest.mark.parametrize("flag", ["--fp16", "--memory-efficient-fp16"])
def test_overflow_on_the_cpu_skips_the_update(flag, train, tmp_path, caplog):
    caplog.set_level("INFO")
    train(tmp_path, flag, "--fp16-init-scale", 2**40)
    assert "gradient overflow detected" in caplog.text
    assert all(tensor.isfinite().all() for tensor in parameters(tmp_path).values())


def test_tpu_without_torch_xla(train, tmp_path):
    with pytest.raises(UserError, match="--tpu needs the package torch_xla"):
        train(tmp_path, "--tpu")


def configured(**given):
    """`common` as `Trainer` gets it, and as it is afterwards."""
    common = OmegaConf.create({**{flag: getattr(CommonConfig, flag) for flag in FLAGS}, "fp16_no_flatten_grads": False})
    common.update(given)
    trainer = SimpleNamespace(device=torch.device(given.get("device", "cpu")))
    consistent_precision(lambda self, cfg: None)(trainer, SimpleNamespace(common=common))
    return common


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_memory_efficient_implies_half_precision_under_hydra(precision):
    assert configured(**{f"memory_efficient_{precision}": True})[precision]
    assert not any(configured()[flag] for flag in FLAGS)


def test_flat_gradients_stay_on_the_gpu():
    assert configured(fp16=True, device="cuda").fp16_no_flatten_grads is False


@pytest.mark.parametrize("two", [("fp16", "bf16"), ("amp", "memory_efficient_bf16")])
def test_precisions_exclude_each_other(two):
    with pytest.raises(UserError, match="exclude each other"):
        configured(**dict.fromkeys(two, True))
