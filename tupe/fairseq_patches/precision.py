"""Half precision: bfloat16 from the command line, memory-efficient variants under Hydra, AMP, and the CPU."""

import importlib.util
import logging
import sys
from contextlib import AbstractContextManager, nullcontext

import torch
from fairseq import options, trainer
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin, _MemoryEfficientFP16OptimizerMixin

from tupe.errors import UserError
from tupe.fairseq_patches.patching import overlay, patches, replaced
from tupe.fairseq_patches.scope import before_training, config_in_scope, self_in_scope

logger = logging.getLogger(__name__)


@patches(options, "parse_args_and_arch", "parser input_args parse_known")
def bf16_without_tpu(original):
    """`--bf16` sets `args.tpu`, and training then asks torch_xla for a device."""

    def parse_args_and_arch(parser, input_args=None, parse_known=False, **options):
        parsed = original(parser, input_args=input_args, parse_known=parse_known, **options)
        args = parsed[0] if parse_known else parsed
        is_ours = getattr(args, "tpu", False) and config_in_scope(args)
        if is_ours and importlib.util.find_spec("torch_xla") is None:
            if "--tpu" in (sys.argv[1:] if input_args is None else input_args):
                raise UserError("--tpu needs the package torch_xla, which is not installed: leave --tpu out")
            args.tpu = False
        return parsed

    return parse_args_and_arch


@before_training
def consistent_precision(cfg, task, model):
    """Settings of `common` that only work together.

    Under Hydra `memory_efficient_fp16` without `fp16` (and `bf16` alike) is ignored: the command line sets both.
    Without a GPU `fp16` makes no update in minutes. On the CPU it asks, with flat gradients, for a CUDA device, and
    `amp` does nothing.
    """
    common = cfg.common
    common.fp16 = common.fp16 or common.memory_efficient_fp16
    common.bf16 = common.bf16 or common.memory_efficient_bf16
    if sum(map(bool, (common.fp16, common.bf16, common.amp))) > 1:
        raise UserError("fp16, bf16 and amp exclude each other: keep one of them")
    if common.fp16 and not (common.cpu or common.tpu or torch.cuda.is_available()):
        raise UserError(
            "fp16 is for GPUs, and PyTorch sees none: leave out --fp16 (under Hydra common.fp16=false) and train a "
            "small model by --cpu (common.cpu=true)"
        )
    if (common.cpu or not torch.cuda.is_available()) and not common.tpu:
        common.fp16_no_flatten_grads = True
        if common.fp16:
            logger.warning("fp16 is slow on the CPU: leave it out there, or take bf16")
        if common.amp:
            logger.warning("amp has no effect on the CPU: this run computes in float32 (bf16 works there)")


@patches(_FP16OptimizerMixin, "state_dict", "self", only_for=self_in_scope)
def saves_masters(original):
    """A checkpoint otherwise has the parameters rounded to 16 bits alone, and a resumed run starts from those."""

    def state_dict(self):
        return {**original(self), "fp32_params": [p.detach() for p in self.fp32_optimizer.params]}

    return state_dict


@patches(_FP16OptimizerMixin, "load_state_dict", "self state_dict optimizer_overrides", only_for=self_in_scope)
def loads_masters(original):
    """The float32 parameters of `saves_masters`, where there are any."""

    def load_state_dict(self, state_dict, optimizer_overrides=None):
        original(self, state_dict, optimizer_overrides)
        with torch.no_grad():
            for p, saved in zip(self.fp32_optimizer.params, state_dict.get("fp32_params", ())):
                p.copy_(saved)

    return load_state_dict


#: What fairseq's scaler counts.
_COUNTS = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")


@patches(_FP16OptimizerMixin, "state_dict", "self", only_for=self_in_scope)
@patches(_MemoryEfficientFP16OptimizerMixin, "state_dict", "self", only_for=self_in_scope)
@patches(AMPOptimizer, "state_dict", "self", only_for=self_in_scope)
def saves_scaler(original):
    """A resumed run otherwise counts anew the updates until the loss scale grows, and under AMP begins with the first
    scale: other updates then overflow, whose batches are skipped.
    """

    def state_dict(self):
        scaler = self.scaler
        if isinstance(scaler, DynamicLossScaler):
            return {**original(self), "loss_scaler": {name: getattr(scaler, name) for name in _COUNTS}}
        return {**original(self), "loss_scaler": {} if scaler is None else scaler.state_dict()}

    return state_dict


@patches(_FP16OptimizerMixin, "load_state_dict", "self state_dict optimizer_overrides", only_for=self_in_scope)
@patches(
    _MemoryEfficientFP16OptimizerMixin, "load_state_dict", "self state_dict optimizer_overrides", only_for=self_in_scope
)
@patches(AMPOptimizer, "load_state_dict", "self state_dict optimizer_overrides", only_for=self_in_scope)
def loads_scaler(original):
    """The state of `saves_scaler`, where there is one of this kind; windows and factors are those of this run."""

    def load_state_dict(self, state_dict, optimizer_overrides=None):
        original(self, state_dict, optimizer_overrides)
        scaler, saved = self.scaler, state_dict.get("loss_scaler", {})
        if isinstance(scaler, DynamicLossScaler):
            vars(scaler).update({name: saved[name] for name in _COUNTS if name in saved})
        elif scaler is not None and "scale" in saved and scaler.is_enabled():
            changed = {name: saved[name] for name in ("scale", "_growth_tracker")}
            scaler.load_state_dict({**scaler.state_dict(), **changed})

    return load_state_dict


@patches(AMPOptimizer, "step", "self", only_for=self_in_scope)
def unscaled_once(original):
    """Clipping divides the gradients by the loss scale, noted by the scaler for PyTorch's optimizer; the step asks it
    about fairseq's wrapper and divides again, by 128 and more: gradients are then near Adam's `eps`.
    """

    def step(self, *args, **kwargs):
        self.scaler.step(self.optimizer)
        self.scaler.update()

    return step


class _StaysOnCPU(torch.Tensor):
    def cuda(self, *args, **kwargs):
        return self


def _tensor(value: float) -> torch.Tensor:
    return torch.tensor(value).as_subclass(_StaysOnCPU)


_ON_CPU = overlay(trainer, "torch", "Trainer.train_step", tensor=_tensor)


def overflows_on_the_cpu() -> AbstractContextManager:
    """Let an fp16 overflow be one without a GPU: fairseq writes `torch.tensor(0.0).cuda()`, whatever the device."""
    return nullcontext() if torch.cuda.is_available() else replaced(trainer, "torch", _ON_CPU)
