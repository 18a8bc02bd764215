"""Cache of the terms of a `PositionBias` between evaluations with the same weights."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tupe.position.terms import PositionTerms
from tupe.tracing import is_traced

if TYPE_CHECKING:
    from tupe.position.bias import PositionBias


def cacheable_tensors(position: PositionBias) -> list[Tensor] | None:
    """Return the parameters and buffers that the terms are made of, or `None` where nothing may be cached.

    Nothing is cached in training, with gradients, under tracers and transforms, nor where a module may compute
    something else than a function of those tensors: a wrapper, an adapter, a parametrisation, a class that is not a
    `Term`, a replica (`nn.DataParallel`) or a flattened module, which has no parameters.
    """
    if position.training or torch.is_grad_enabled() or is_traced():
        return None
    if not all(_is_known(type(module)) for module in position.modules()):
        return None
    tensors = [*position.parameters(), *position.buffers()]
    plain = all(type(t) in (nn.Parameter, Tensor) and not t.is_inference() for t in tensors)  # others count no versions
    own = position.parameter_free or any(isinstance(t, nn.Parameter) for t in tensors)
    return tensors if plain and own else None


@lru_cache
def _is_known(kind: type) -> bool:
    """Tell whether modules of `kind` are PyTorch's or ours, or derive from a `Term`."""
    return kind.__module__.startswith(("torch.nn.modules.", "tupe.")) or any(
        base.__module__.startswith("tupe.position.") for base in kind.__mro__
    )


def _versions(terms: PositionTerms) -> list[int]:
    parts = terms.bias if isinstance(terms.bias, tuple) else (terms.bias,)
    return [part._version for part in (*parts, *terms[1:]) if part is not None]


class TermCache:
    """Cache of position terms, keyed by (dtype, structured). Copies and pickles start empty.

    Terms that a caller has changed in place are computed again.

    A tensor counts as unchanged while its address and its version are the same. Every operation in place raises the
    version, except PyTorch's fused optimizers and writes through `tensor.data`.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._entries: dict[tuple[torch.dtype, bool], tuple[int, list, list, PositionTerms, list]] = {}

    def __reduce__(self) -> tuple:
        return TermCache, ()

    def first(
        self, length: int, position: PositionBias, tensors: list[Tensor], dtype: torch.dtype, structured: bool
    ) -> PositionTerms:
        """Return the terms of at least the first `length` positions; compute them only if `tensors` have changed.

        They are computed for a power of two of positions, so that rising lengths compute them only a few times.
        `tensors` are the parameters and buffers of `position`.
        """
        state = [(t.data_ptr(), t.dtype, t._version) for t in tensors]
        num_positions, cached_state, _, terms, made = self._entries.get(
            (dtype, structured), (0, [], [], PositionTerms(), [])
        )
        if num_positions < length or cached_state != state or made != _versions(terms):
            num_positions = int(max(length, min(1 << (length - 1).bit_length(), position.max_positions)))
            with torch.inference_mode(False), torch.no_grad():  # tensors of inference count no versions
                terms = position.compute(num_positions, structured).to(dtype)
            alive = [t.detach() for t in tensors]  # so that no new tensor gets the address of one of them
            self._entries[dtype, structured] = num_positions, state, alive, terms, _versions(terms)
        return terms
