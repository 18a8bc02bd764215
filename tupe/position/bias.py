"""The sum of the content-free terms, `reset(absolute(i, j) + relative(j - i))`, computed once a batch."""

import math

import torch
from torch import nn

from tupe.position.absolute import UntiedAbsolute
from tupe.position.cache import TermCache, cacheable_tensors
from tupe.position.deberta import RelativeEmbeddings
from tupe.position.length import Span
from tupe.position.relative import RelativeTerm
from tupe.position.reset import Reset, reset_cls
from tupe.position.rotary import Rotary
from tupe.position.structured import StructuredBias
from tupe.position.terms import PositionTerms, Term


class PositionBias(nn.Module):
    """Position encoding: `reset(absolute + relative)`, or with `cross` factors to add to the words' queries and keys.

    Where each of `L` layers has terms of its own, build the terms with `L H` heads: one call computes all layers, and
    `PositionTerms.split(L)` separates them. Where the heads of a layer share a term, build it with `L` heads. A term of
    one head is added to every head of the others.

    The terms are a pure function of the parameters: they can be compiled, exported, vmapped and wrapped. In evaluation
    without gradients they are cached until a parameter changes, and sliced for shorter inputs. The cache does not see
    three changes: a write through `parameter.data`, a step of a fused optimizer, and a hook on a submodule. Call
    `train()`, `eval()` or `clear_cache()` after one of them.

    Args:
        absolute: `UntiedAbsolute`, `LowRankAbsolute`, `FreeAbsolute`, a `Term` of your own or nothing.
        relative: a `RelativeTerm` such as `BucketedRelative`, a `Term` of your own or nothing.
        reset: `Reset` or nothing; needs a term to reset, with a key for each position.
        cross: return the factors of `absolute` instead of their product, so that attention computes
            `(x_i W^Q + p_i U^Q)(x_j W^K + p_j U^K)^T`, all four products (BERT-A^d; TUPE, section 4.3).
        rotation: turns queries and keys (RoPE); `PositionTerms.rotation` carries its angles.
        embeddings: vectors of the distances, which `DisentangledRelative` projects in each layer (DeBERTa).
        num_terms: scale content by `1 / sqrt(num_terms * d_h)`; by default the number of products that the logit sums,
            without those of `DisentangledRelative`.
    """

    def __init__(
        self,
        absolute: Term | None = None,
        relative: Term | None = None,
        reset: Reset | None = None,
        *,
        cross: bool = False,
        rotation: Rotary | None = None,
        embeddings: RelativeEmbeddings | None = None,
        num_terms: int | None = None,
    ) -> None:
        super().__init__()
        assert not isinstance(relative, UntiedAbsolute), "UntiedAbsolute is an absolute term: it scales the content too"
        heads = {getattr(part, "num_heads", 1) for part in (absolute, relative, reset)} - {1}
        assert len(heads) < 2, f"the terms have {heads} heads"
        resettable = (absolute or relative) is not None and not cross and getattr(absolute, "num_keys", None) is None
        assert reset is None or resettable, "the reset needs a term without cross terms and mixtures of keys"
        self.absolute = absolute
        self.relative = relative
        self.reset = reset
        self.rotation = rotation
        self.embeddings = embeddings
        self.cross = cross
        #: Number of keys where these are not positions (Linformer's `k`), else `None`.
        self.num_keys: int | None = getattr(absolute, "num_keys", None)
        #: Number of products that the logit sums; content is scaled by `scale(d_h)`.
        self.num_terms = num_terms or (4 if cross else 2 if isinstance(absolute, UntiedAbsolute) else 1)
        #: The longest input that all terms cover; infinity where no term has an end.
        self.max_positions: float = min(getattr(term, "max_positions", math.inf) for term in (absolute, relative))
        #: Width of the factors of a structured bias, 0 without factors; `None` where the bias cannot be structured.
        self.structured_width: int | None = 0 if cross or absolute is None else getattr(absolute, "width", None)
        if self.num_keys is not None or not (relative is None or isinstance(relative, RelativeTerm)):
            self.structured_width = None
        #: Whether a structured bias has factors and no values by distance; it may have a reset.
        self.in_factors = bool(self.structured_width) and relative is None
        #: Whether the terms have no parameters, such as ALiBi's fixed slopes.
        self.parameter_free = not any(True for _ in self.parameters())
        self._cache = TermCache()

    def compute(
        self, length: int, structured: bool = False, num_keys: int | None = None, query_offset: int = 0
    ) -> PositionTerms:
        """Compute the terms in float32 or better: `forward` without its cache and its rounding."""
        span = Span.of(length, num_keys, query_offset)
        query = key = None
        rotation = None if self.rotation is None else self.rotation(length, query_offset)
        embeddings = None if self.embeddings is None else self.embeddings(span.end)
        absolute = self.absolute
        if self.cross and absolute is not None:
            query, key = absolute(*span.arguments, factors=True)
            absolute = None
        if absolute is None and self.relative is None:
            return PositionTerms(None, query, key, rotation, embeddings=embeddings)
        theta = None if self.reset is None else self.reset(absolute)
        if self.gives_structured(structured, query_offset):
            relative = None if self.relative is None else self.relative(*span.arguments, by_distance=True)
            bias = StructuredBias(relative=relative, theta=theta)
            if absolute is not None:
                query_factor, key_factor = absolute(*span.arguments, factors=True)
                scale = absolute.scale  # pyright: ignore[reportAttributeAccessIssue]: see `Term`
                bias = bias._replace(query=query_factor * scale, key=key_factor)
        else:
            terms = [term(*span.arguments) for term in (absolute, self.relative) if term is not None]
            bias = terms[0] if len(terms) == 1 else terms[0] + terms[1]
            if theta is not None:
                bias = reset_cls(bias, theta, query_offset)
        return PositionTerms(bias, query, key, rotation, embeddings=embeddings)

    def gives_structured(self, structured: bool, query_offset: int) -> bool:
        """Tell whether `compute` returns a `StructuredBias` for these arguments."""
        return structured and self.structured_width is not None and (self.reset is None or query_offset == 0)

    def forward(
        self,
        length: int,
        dtype: torch.dtype = torch.float32,
        structured: bool = False,
        *,
        num_keys: int | None = None,
        query_offset: int = 0,
    ) -> PositionTerms:
        """Return the terms of `length` queries, from position `query_offset` on, and of the first `num_keys` keys.

        Args:
            length: `n`, the number of queries.
            dtype: type of the returned terms; they are computed in float32 or better and rounded once.
            structured: make the bias a `StructuredBias`, of a size linear in `n`. It stays dense for
                `FreeAbsolute`, for Linformer's keys, and for a reset with an offset.
            num_keys: `m`; by default `query_offset + length`, the positions up to the last query. Linformer's
                `k` keys are always all there.
            query_offset: the position of the first query. In step `t` of decoding, `position(1, query_offset=t)` is the
                first `t + 1` columns of the full matrix's row `t`.

        Returns:
            The parts that there are; the bias is `(H, length, num_keys)` or a `StructuredBias`.
        """
        span = Span.of(length, num_keys, query_offset)
        tensors = cacheable_tensors(self)
        if tensors is None:
            return self.compute(length, structured, num_keys, query_offset).to(dtype)
        if span == Span.of(length):
            return self._cache.first(length, self, tensors, dtype, structured).slice(length, self.num_keys)
        # Decoding asks for row after row: they are cut from a structured bias, whose memory is linear in the length.
        whole = torch.promote_types(dtype, torch.float32)
        terms = self._cache.first(span.end, self, tensors, whole, structured=True)
        terms = terms.slice(length, self.num_keys or num_keys, query_offset)
        if isinstance(terms.bias, StructuredBias) and not self.gives_structured(structured, query_offset):
            terms = terms._replace(bias=terms.bias.dense(span.num_keys, query_offset))
        return terms.to(dtype)

    def scale(self, head_dim: int) -> float:
        """Return the factor of the words' product in attention, `1 / sqrt(num_terms * head_dim)`.

        Args:
            head_dim: width `d_h` of a head of queries and keys.
        """
        return (self.num_terms * head_dim) ** -0.5

    def clear_cache(self) -> None:
        """Forget the terms of earlier evaluations."""
        self._cache.clear()

    def train(self, mode: bool = True) -> "PositionBias":
        self.clear_cache()
        return super().train(mode)
