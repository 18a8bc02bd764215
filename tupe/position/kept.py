"""The terms of a `PositionBias` kept from one evaluation to the next: of the model's weights, and nothing else's."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Optional

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


def plain_tensors(position: PositionBias) -> Optional[list[Tensor]]:
    """What the terms are made of, if any change of it shows and nobody else needs to run; else nothing.

    Nothing with gradients, under tracers and transforms, with parameters that a wrapper gathers, flattens or
    replicates, nor with a module that something hooks, wraps or replaces. Asked in every evaluation, so by the
    dictionaries of the modules: PyTorch's iterators take 100 us for what takes 10 here.
    """
    if position.training or torch.is_grad_enabled() or is_traced() or nn.modules.module._has_any_global_hook():
        return None
    if "_is_fsdp_managed_module" in vars(position):
        return None
    tensors: list[Tensor] = []
    if not _collect(position, tensors) or any(tensor.is_inference() for tensor in tensors):  # they count no changes
        return None
    return tensors if any(type(tensor) is nn.Parameter for tensor in tensors) else None


def _collect(module: nn.Module, tensors: list[Tensor]) -> bool:
    held = vars(module)
    if not _is_known(type(module)) or held["_forward_pre_hooks"] or held["_forward_hooks"] or "forward" in held:
        return False
    for tensor in held["_parameters"].values():
        if tensor is not None:
            if type(tensor) is not nn.Parameter:
                return False
            tensors.append(tensor)
    tensors += [tensor for tensor in held["_buffers"].values() if tensor is not None]
    return all(child is None or _collect(child, tensors) for child in held["_modules"].values())


@lru_cache
def _is_known(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.modules.") or any(
        base.__module__.startswith("tupe.position.") for base in kind.__mro__
    )


class KeptTerms:
    """By type, and whether in parts. Neither pickled nor copied: a copy starts empty."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._kept: dict[tuple[torch.dtype, bool], tuple[int, tuple, list[Tensor], PositionTerms]] = {}

    def __reduce__(self) -> tuple:
        return KeptTerms, ()

    def first(
        self, length: int, position: PositionBias, tensors: list[Tensor], dtype: torch.dtype, in_parts: bool
    ) -> PositionTerms:
        """The terms of the first `length` positions of `position`, made of `tensors`, or of more positions.

        They are made for a power of two of positions, so that rising lengths make them anew only a few times.
        """
        state = (_steps, *[(t.data_ptr(), t.dtype, t._version) for t in tensors])
        kept, of, _, terms = self._kept.get((dtype, in_parts), (0, None, None, None))
        if kept < length or of != state:
            kept = max(length, min(1 << (length - 1).bit_length(), position.max_positions))
            terms = position.compute(kept, in_parts).to(dtype)
            alive = [t.detach() for t in tensors]  # so that no other tensor comes to lie where one of them lay
            self._kept[dtype, in_parts] = kept, state, alive, terms
        return terms
