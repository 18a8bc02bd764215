"""The terms of a `PositionBias` kept from one evaluation to the next: of the model's weights, and nothing else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from tupe.position.terms import PositionTerms
from tupe.tracing import is_traced

if TYPE_CHECKING:
    from tupe.position.bias import PositionBias

#: Steps of any optimizer in this process: PyTorch's fused ones write parameters behind the version counter's back.
_steps = 0


def _count_step(*_: object) -> None:
    global _steps
    _steps += 1


register_optimizer_step_post_hook(_count_step)


def may_keep(position: PositionBias) -> bool:
    """Whether the terms are those of plain parameters, of which any change shows, and whether nobody else needs to run.

    Not with gradients, under tracers and transforms, with parameters that a wrapper gathers, flattens or replicates,
    nor with a module that something hooks, wraps or replaces.
    """
    if position.training or torch.is_grad_enabled() or is_traced() or hasattr(position, "_is_fsdp_managed_module"):
        return False
    weights = list(position.parameters())
    return (
        len(weights) > 0
        and all(type(weight) is nn.Parameter for weight in weights)
        and not any(tensor.is_inference() for tensor in (*weights, *position.buffers()))  # they count no changes
        and all(map(_is_known, position.modules()))
    )


def _is_known(module: nn.Module) -> bool:
    kind = type(module)
    known = kind.__module__.startswith("torch.nn.modules.") or any(
        base.__module__.startswith("tupe.position.") for base in kind.__mro__
    )
    return known and not (module._forward_pre_hooks or module._forward_hooks)


class KeptTerms:
    """By type, and whether in parts. Neither pickled nor copied: a copy starts empty."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._kept: dict[tuple[torch.dtype, bool], tuple[int, tuple, list[Tensor], PositionTerms]] = {}

    def __reduce__(self) -> tuple:
        return KeptTerms, ()

    def first(self, length: int, position: PositionBias, dtype: torch.dtype, in_parts: bool) -> PositionTerms:
        """The terms of the first `length` positions of `position`, or of more.

        They are made for a power of two of positions, so that rising lengths make them anew only a few times.
        """
        tensors = [*position.parameters(), *position.buffers()]
        state = (_steps, *((t.data_ptr(), t.dtype, t._version) for t in tensors))
        kept, of, _, terms = self._kept.get((dtype, in_parts), (0, None, None, None))
        if kept < length or of != state:
            kept = max(length, min(1 << (length - 1).bit_length(), position.max_positions))
            terms = position.compute(kept, in_parts).to(dtype)
            alive = [t.detach() for t in tensors]  # so that no other tensor comes to lie where one of them lay
            self._kept[dtype, in_parts] = kept, state, alive, terms
        return terms
