"""Half precision: settings that work together; optimizers and schedules that resume with the same bits.

The classes have the names of fairseq's classes, because checkpoints record them.
"""

from typing import Any

import torch
from fairseq import optim
from fairseq.optim import FairseqOptimizer
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.optim.lr_scheduler import reduce_lr_on_plateau

#: Counters of fairseq's scaler.
_COUNTS = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")


class _SavesScaler(FairseqOptimizer):
    """Saves the state of the loss scaler.

    In fairseq, a resumed run restarts the count of updates until the loss scale grows, and under AMP also restarts from
    the initial scale. Other updates then overflow, and their batches are skipped.
    """

    def state_dict(self) -> dict[str, Any]:
        state, scaler = super().state_dict(), self.scaler
        if isinstance(scaler, DynamicLossScaler):
            return {**state, "loss_scaler": {name: getattr(scaler, name) for name in _COUNTS}}
        return {**state, "loss_scaler": {} if scaler is None else scaler.state_dict()}

    def load_state_dict(self, state_dict, optimizer_overrides=None) -> None:
        """Load the scaler's state if one of this kind was saved; windows and factors stay those of this run."""
        super().load_state_dict(state_dict, optimizer_overrides)
        scaler, saved = self.scaler, state_dict.get("loss_scaler", {})
        if isinstance(scaler, DynamicLossScaler):
            vars(scaler).update({name: saved[name] for name in _COUNTS if name in saved})
        elif scaler is not None and "scale" in saved and scaler.is_enabled():
            counted = {"scale": saved["scale"], "_growth_tracker": saved["_growth_tracker"]}
            scaler.load_state_dict(scaler.state_dict() | counted)


class FP16Optimizer(_SavesScaler, optim.FP16Optimizer):
    """Saves the float32 parameters too: fairseq saves them rounded to 16 bits, and a resumed run starts from those."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "fp32_params": [p.detach() for p in self.fp32_optimizer.params]}

    def load_state_dict(self, state_dict, optimizer_overrides=None) -> None:
        super().load_state_dict(state_dict, optimizer_overrides)
        with torch.no_grad():
            for p, saved in zip(self.fp32_optimizer.params, state_dict.get("fp32_params", ())):
                p.copy_(saved)


class MemoryEfficientFP16Optimizer(_SavesScaler, optim.MemoryEfficientFP16Optimizer):
    """Saves the scaler; this optimizer keeps no float32 copy of the parameters."""


class AMPOptimizer(_SavesScaler, optim.AMPOptimizer):
    """Divides the gradients by the loss scale only once.

    Clipping divides them, and the scaler records this for PyTorch's optimizer. fairseq's step passes fairseq's wrapper
    instead, so the scaler divides again, by 128 or more, and gradients end up near Adam's `eps`.
    """

    def step(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()


class ReduceLROnPlateauLRSchedule(reduce_lr_on_plateau.ReduceLROnPlateauLRSchedule):
    """Saves for how many epochs the loss has not fallen. fairseq counts them from 0 again."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "num_bad_epochs": self.lr_scheduler.num_bad_epochs}

    def load_state_dict(self, state_dict) -> None:
        super().load_state_dict(state_dict)
        self.lr_scheduler.num_bad_epochs = state_dict.get("num_bad_epochs", 0)


def make_precision_consistent(common) -> None:
    """Set the options of `common` that only work together.

    Under Hydra `memory_efficient_fp16` is ignored without `fp16` (and likewise for `bf16`); the command line sets both.
    If both `fp16` and `bf16` are set, fairseq trains in fp16 without a loss scale. Flat gradients in fp16 need a CUDA
    device, so they are not flat on the CPU.
    """
    common.fp16 = common.fp16 or common.memory_efficient_fp16
    common.bf16 = common.bf16 or common.memory_efficient_bf16
    assert common.fp16 + common.bf16 + common.amp <= 1, "set only one of fp16, bf16 and amp"
    if common.cpu or not torch.cuda.is_available():
        common.fp16_no_flatten_grads = True
