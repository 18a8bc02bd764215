"""fairseq's `adam` on PyTorch's fused kernels: same update and checkpoints, a few launches instead of thousands."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import ast
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam
from fairseq.optim.fairseq_optimizer import FairseqOptimizer
from omegaconf import II
from torch import Tensor, nn
from torch.optim.adamw import adamw

from tupe.position.precision import at_least_float32, has_16_bits
from tupe.systems import setting


class DecoupledAdam(torch.optim.Optimizer):
    r"""Adam with decoupled weight decay, as fairseq's `adam` computes it, by PyTorch's `adamw`.

        p <- p - lr * weight_decay * p - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps)

    The state is fairseq's: `step` (an int), `exp_avg` and `exp_avg_sq` in float32 or better. Parameters in half
    precision are updated in float32 and rounded once, one after the other, so that little memory is needed.

    Args:
        params: parameters, or groups of them.
        lr, betas, eps, weight_decay: see above.
        no_bias_correction: replace `sqrt(1 - beta2^t) / (1 - beta1^t)` by 1, as the Adam of BERT and ELECTRA does.
        decay_matrices_only: no weight decay on parameters of one dimension: layer norms and biases.
    """

    supports_memory_efficient_fp16 = True
    supports_flat_params = True

    def __init__(self, params: Iterable, **options: Any) -> None:
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update the parameters that have gradients, with one call for all that are updated alike."""
        for group in self.param_groups:
            alike = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    decays = p.ndim > 1 or not group.get("decay_matrices_only")
                    alike[self._next_step(p), decays, p if has_16_bits(p) else p.device].append(p)
            for (step, decays, _), params in alike.items():
                self._update(params, step, group, group["weight_decay"] if decays else 0.0)

    def _next_step(self, p: nn.Parameter) -> int:
        """Count the update of `p`; make its state, or move a loaded one to its device, in float32 or better."""
        state, like = self.state[p], {"device": p.device, "dtype": torch.promote_types(p.dtype, torch.float32)}
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = state[name].to(**like) if name in state else torch.zeros_like(p, **like)
        state["step"] = state.get("step", 0) + 1
        return state["step"]

    def _update(self, params: Sequence[nn.Parameter], step: int, group: dict, weight_decay: float) -> None:
        beta1, beta2 = group["betas"]
        root = math.sqrt(1 - beta2**step)
        factor = (1 - beta1**step) / root if group.get("no_bias_correction") else 1.0  # undoes PyTorch's correction
        values = [at_least_float32(p) for p in params]
        adamw(
            values,
            [at_least_float32(p.grad) for p in params],
            *([self.state[p][name] for p in params] for name in ("exp_avg", "exp_avg_sq")),
            [],
            list(torch.full((len(params),), step - 1.0, device=params[0].device).unbind()),  # PyTorch adds 1
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"] * factor,
            weight_decay=weight_decay / factor,
            eps=group["eps"] / root,  # PyTorch adds it to the corrected root
            maximize=False,
        )
        for p, value in zip(params, values):
            if value is not p:
                p.copy_(value)


@dataclass
class FusedAdamWConfig(FairseqDataclass):
    adam_betas: Any = setting((0.9, 0.999), "decay rates of the two moving averages")
    adam_eps: float = setting(1e-8, "added to the square root of the second moving average")
    weight_decay: float = setting(0.0, "decoupled weight decay, multiplied by the learning rate")
    no_bias_correction: bool = setting(False, "do not correct the averages for starting at zero, as in ELECTRA")
    decay_matrices_only: bool = setting(
        False, "no weight decay on layer norms and biases; not with flattened parameters"
    )
    lr: list[float] = field(default=II("optimization.lr"))


@register_optimizer("fused_adamw", dataclass=FusedAdamWConfig)
class FusedAdamW(FairseqAdam):
    """`--optimizer fused_adamw`: update rule and checkpoints of `adam`, in every precision of fairseq."""

    def __init__(self, cfg: FusedAdamWConfig, params: Iterable) -> None:
        FairseqOptimizer.__init__(self, cfg)  # FairseqAdam's would build its own optimizer
        self._optimizer = DecoupledAdam(params, **self.optimizer_config)
        # flattened parameters hide which ones are layer norms and biases, so none would be decayed
        assert not cfg.decay_matrices_only or any(p.ndim > 1 for p in self.params), "set common.fp16_no_flatten_grads"

    @property
    def optimizer_config(self) -> dict[str, Any]:
        """The options of a new run; a resumed run has its checkpoint's, except for `optimizer_overrides`."""
        betas = self.cfg.adam_betas
        return {
            "lr": self.cfg.lr[0],
            "betas": tuple(ast.literal_eval(betas) if isinstance(betas, str) else betas),
            "eps": self.cfg.adam_eps,
            "weight_decay": self.cfg.weight_decay,
            "no_bias_correction": self.cfg.no_bias_correction,
            "decay_matrices_only": self.cfg.decay_matrices_only,
        }

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Optional[Callable[[Tensor], Tensor]] = None) -> Tensor:
        """Scale gradients down to the norm `max_norm`, if it is > 0, in few calls; return their norm before that."""
        grads = [p.grad for p in self.params if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, torch.float32)))
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            torch._foreach_mul_(grads, (max_norm / (norm + 1e-6)).clamp_(max=1))
        return norm


# fairseq compares class names before `fused_adamw` resumes a checkpoint of `adam`, or the other way round.
FusedAdamW.__name__ = FairseqAdam.__name__
