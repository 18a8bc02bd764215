"""The sum of the content-free terms, `reset(absolute(i, j) + relative(j - i))`, computed once a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from tupe.errors import UserError
from tupe.position.absolute import UntiedAbsolute
from tupe.position.free import FreeAbsolute
from tupe.position.low_rank import LowRankAbsolute
from tupe.position.precision import no_autocast
from tupe.position.relative import RelativeTerm
from tupe.position.reset import Reset
from tupe.position.segment import segment_bias
from tupe.position.structured import StructuredBias

#: Steps of any optimizer in this process: PyTorch's fused ones write parameters behind the version counter's back.
_steps = 0


def _count_step(*_: object) -> None:
    global _steps
    _steps += 1


register_optimizer_step_post_hook(_count_step)

AbsoluteTerm = Union[UntiedAbsolute, LowRankAbsolute, FreeAbsolute]


class PositionTerms(NamedTuple):
    """What the encoding adds to the attention; `None` where it adds nothing. `m` keys: `n`, or Linformer's `k`.

    bias: added to the logits, `(H, n, m)`; `(B, H, n, n)` where segments make it the sequence's own; or its parts.
    query, key: added to the projected words before their product, `(H, n, d_h)` each (BERT-A^d).
    """

    bias: Union[Tensor, StructuredBias, None] = None
    query: Optional[Tensor] = None
    key: Optional[Tensor] = None

    def to(self, dtype: torch.dtype) -> PositionTerms:
        return PositionTerms(*(None if term is None else term.to(dtype) for term in self))

    def slice(self, length: int, num_keys: Optional[int] = None) -> PositionTerms:
        """The terms of the first `length` positions: the top-left block, and the first rows."""
        bias, query, key = self
        if isinstance(bias, StructuredBias):
            bias = bias.slice(length)
        elif bias is not None:
            bias = bias[:, :length, : num_keys or length]
        return PositionTerms(
            bias, None if query is None else query[:, :length], None if key is None else key[:, :length]
        )

    def add_segments(self, values: Tensor, segments: Tensor, in_parts: bool = False) -> PositionTerms:
        """The terms with `values[h, s_i, s_j]` added to the bias, or among its parts.

        Args:
            values: `E_S`, `(H, 2, 2)`.
            segments: `s`, `(B, n)`, bool, true in segment 1; `(1, 1)` if that is the segment of all.
            in_parts: add a part, if the bias is in parts or nothing yet.
        """
        if in_parts and not isinstance(self.bias, Tensor):
            bias = StructuredBias() if self.bias is None else self.bias
            return self._replace(bias=bias._replace(segment=values, segments=segments))
        bias = segment_bias(values, segments)
        bias = bias[0] if len(bias) == 1 else bias
        return self._replace(bias=bias if self.bias is None else self.bias + bias)

    def split(self, num_layers: int) -> list[PositionTerms]:
        """The terms of each layer, where every layer has its own: `(L H, ...)` to `L` times `(H, ...)`."""

        def of_layers(term: Union[Tensor, StructuredBias, None]) -> Sequence[Union[Tensor, StructuredBias, None]]:
            if term is None:
                return [None] * num_layers
            if isinstance(term, StructuredBias):
                return term.split(num_layers)
            return term.unflatten(0, (num_layers, -1)).unbind()

        return [PositionTerms(*layer) for layer in zip(*map(of_layers, self))]


class PositionBias(nn.Module):
    """`reset(absolute + relative)`, or with `cross` the position factors that join the words' queries and keys.

    Layers that do not share their terms are more heads: with terms of `L H` heads, one computation makes those of all
    layers, and `PositionTerms.split(L)` hands them out. Heads that share have terms of `L` heads, one for each layer.

    In evaluation without gradients the result is kept until a parameter changes, and sliced for shorter inputs; it is
    made for a power of two of positions, so that rising lengths make it anew only a few times. A write through
    `parameter.data` is invisible to PyTorch's version counter: call `train()`, `eval()` or `clear_cache()` after one.

    Args:
        absolute: `UntiedAbsolute`, `LowRankAbsolute`, `FreeAbsolute` or nothing.
        relative: `BucketedRelative`, `ClippedRelative`, `UnbinnedRelative`, `ParametricRelative` or nothing.
        reset: `Reset` or nothing; needs a term to reset.
        cross: hand out the factors of `absolute` instead of their product, for
            `(x_i W^Q + p_i U^Q)(x_j W^K + p_j U^K)^T`, all four products (BERT-A^d; TUPE, section 4.3).

    Raises:
        UserError: for a combination that has no meaning.
    """

    def __init__(
        self,
        absolute: Optional[AbsoluteTerm] = None,
        relative: Optional[RelativeTerm] = None,
        reset: Optional[Reset] = None,
        *,
        cross: bool = False,
    ) -> None:
        super().__init__()
        if cross and not isinstance(absolute, UntiedAbsolute):
            raise UserError("cross terms need the untied absolute term")
        if reset is not None and (cross or (absolute is None and relative is None)):
            raise UserError(
                "the [CLS] reset needs a content-free correlation, absolute without cross terms or relative: "
                "set reset=none or choose such a term"
            )
        if reset is not None and reset.vectors is not None and not isinstance(absolute, UntiedAbsolute):
            raise UserError("the reset's theta has vectors only with the untied absolute term: give Reset no embed_dim")
        if reset is not None and reset.convention == "release" and (reset.relative is None) != (relative is None):
            raise UserError(
                "the release's reset has relative values of its own exactly where there is a relative term: give Reset "
                f"relative={relative is not None}"
            )
        #: Keys of the terms, where they are not the positions.
        self.num_keys: Optional[int] = getattr(absolute, "num_keys", None)
        if self.num_keys is not None and (reset is not None or relative is not None):
            raise UserError("relative positions and the [CLS] reset need a key for each position, not num_keys of them")
        self.absolute = absolute
        self.relative = relative
        self.reset = reset
        self.cross = cross
        #: By type, and whether in parts: for how many positions, of which parameters, and the terms.
        self._cache: dict[tuple[torch.dtype, bool], tuple[int, tuple, PositionTerms]] = {}

    @property
    def num_terms(self) -> int:
        """Number of products that the logit sums; content is scaled by `1 / sqrt(num_terms * d_h)`."""
        return 4 if self.cross else 2 if isinstance(self.absolute, UntiedAbsolute) else 1

    @property
    def max_positions(self) -> float:
        """The longest input that all terms have; infinity for relative terms that repeat their ends."""
        return min(getattr(term, "max_positions", math.inf) for term in (self.absolute, self.relative))

    @property
    def parts_width(self) -> Optional[int]:
        """Width of the factors of a bias in parts, 0 without factors; `None` where the bias has no parts."""
        if self.num_keys is not None or isinstance(self.absolute, FreeAbsolute):
            return None
        return 0 if self.cross or self.absolute is None else self.absolute.width

    def compute(self, length: int, in_parts: bool = False) -> PositionTerms:
        """The terms of the first `length` positions in float32, with their graph."""
        factors = self.absolute.factors(length) if self.cross else (None, None)
        absolute = None if self.cross else self.absolute
        if absolute is None and self.relative is None:
            return PositionTerms(None, *factors)
        if in_parts and self.parts_width is not None:
            query, key = (None, None) if absolute is None else absolute.factors(length)
            bias = StructuredBias(
                None if query is None else query * absolute.scale,
                key,
                None if self.relative is None else self.relative.by_distance(length),
                None if self.reset is None else self.reset.theta(absolute),
            )
        else:
            terms = [term(length) for term in (absolute, self.relative) if term is not None]
            bias = sum(terms[1:], terms[0])
            if self.reset is not None:
                bias = self.reset(bias, absolute)
        return PositionTerms(bias, *factors)

    def forward(self, length: int, dtype: torch.dtype = torch.float32, in_parts: bool = False) -> PositionTerms:
        """The terms of the first `length` positions, rounded once to `dtype`.

        Args:
            length: `n`.
            dtype: of the terms.
            in_parts: make the bias a `StructuredBias`, of a size linear in `n`, where it has parts (`FreeAbsolute` and
                Linformer's do not).
        """
        parameters = list(self.parameters())
        if not parameters:
            return PositionTerms()
        with no_autocast(parameters[0].device):
            if self.training or torch.is_grad_enabled():
                return self.compute(length, in_parts).to(dtype)
            state = (_steps, *((p.data_ptr(), p.dtype, 0 if p.is_inference() else p._version) for p in parameters))
            kept, of, terms = self._cache.get((dtype, in_parts), (0, None, None))
            if kept < length or of != state:
                kept = max(length, min(1 << (length - 1).bit_length(), self.max_positions))
                terms = self.compute(kept, in_parts).to(dtype)
                self._cache[dtype, in_parts] = kept, state, terms
        return terms.slice(length, self.num_keys)

    def clear_cache(self) -> None:
        self._cache = {}

    def train(self, mode: bool = True) -> PositionBias:
        self.clear_cache()
        return super().train(mode)
