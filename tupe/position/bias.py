"""A position encoding as a sum of small terms, computed once per batch for all layers (TUPE, eq. 7, 8 and 9).

    bias_ij = reset(absolute(i, j) + relative(j - i))

An absolute term is a module that maps a length `n` to two factors, `(H, n, r)` each: `absolute(i, j)` is the product of
row `i` of the first, which is scaled, and row `j` of the second. A relative term maps distances `j - i`, `(D,)`, to
values, `(H, D)`. Neither needs a base class. Both are computed in float32 or better, whatever their parameters' type.
"""

import math

import torch
from torch import Tensor, nn

from tupe.layers import is_traced
from tupe.position.absolute import UntiedAbsolute
from tupe.position.deberta import RelativeEmbeddings
from tupe.position.length import check_length
from tupe.position.pope import Phases
from tupe.position.precision import at_least_float32, in_float32, no_autocast
from tupe.position.reset import Reset
from tupe.position.rotary import Rotary
from tupe.position.terms import Terms


class PositionBias(nn.Module):
    """Sum of an absolute and a relative term, with the reset of [CLS] and rotary angles. Every part is optional.

    If each of `L` layers has its own terms, build the terms with `L H` heads: one call computes all layers, and
    `Terms.split(L)` separates them. If the heads of a layer share a term, build it with `L` heads. A term with one
    head is added to every head of the other terms.

    In evaluation without gradients, the terms are cached until a parameter changes, and sliced for shorter inputs. The
    cache overlooks writes to `parameter.data`, steps of fused optimizers and hooks on terms: call `eval()` after these.

    Args:
        absolute: a module that maps a length to two factors, such as `UntiedAbsolute`.
        relative: a module that maps distances to values, such as `BucketedRelative`.
        reset: `Reset`, applied to the sum of `absolute` and `relative`. It needs a key per position, and no `cross`.
        cross: add the factors of `absolute` to the projected content instead of their product to the logits, so that
            attention computes `(x_i W^Q + p_i U^Q)(x_j W^K + p_j U^K)^T`, all four products (BERT-A^d; TUPE, 4.3).
        rotation: `Rotary`, which rotates queries and keys (RoPE).
        phases: `Phases` of polar queries and keys (PoPE), with a `rotation` of width `2 d_h`.
        embeddings: vectors of the distances, which `DisentangledRelative` projects in each layer (DeBERTa).
        num_terms: scale content by `1 / sqrt(num_terms * d_h)`; by default the number of products that the logit sums,
            without those of `DisentangledRelative`.
    """

    anchor: Tensor

    def __init__(
        self,
        absolute: nn.Module | None = None,
        relative: nn.Module | None = None,
        reset: Reset | None = None,
        *,
        cross: bool = False,
        rotation: Rotary | None = None,
        phases: Phases | None = None,
        embeddings: RelativeEmbeddings | None = None,
        num_terms: int | None = None,
    ) -> None:
        super().__init__()
        heads = {getattr(part, "num_heads", 1) for part in (absolute, relative, reset)} - {1}
        assert len(heads) < 2, f"the terms must have the same number of heads, got {heads}"
        self.absolute, self.relative, self.reset = absolute, relative, reset
        self.rotation, self.phases, self.embeddings = rotation, phases, embeddings
        self.cross = cross
        #: Number of keys if they are not positions (Linformer's `k`), else `None`.
        self.num_keys: int | None = getattr(absolute, "num_keys", None)
        resettable = (absolute or relative) is not None and not cross and self.num_keys is None
        assert reset is None or resettable, "reset needs a term, no cross terms, and one key per position"
        #: Number of products that the logit sums; content is scaled by `scale(d_h)`.
        self.num_terms = num_terms or (4 if cross else 2 if isinstance(absolute, UntiedAbsolute) else 1)
        #: The longest input that all terms cover; infinity if no term is limited.
        self.max_positions: float = min(getattr(term, "max_positions", math.inf) for term in (absolute, relative))
        # Records device and precision of terms without parameters. Empty, so leaving the meta device loses nothing.
        self.register_buffer("anchor", torch.empty(0), persistent=False)
        self.num_parameters = sum(1 for _ in self.parameters())
        self._cache: tuple[list, list, Terms] = ([], [], Terms())

    def compute(self, length: int) -> Terms:
        """Compute the terms of `length` positions, a pure function of the parameters."""
        check_length(length, self.max_positions)
        like, parts = at_least_float32(self.anchor), {}
        distances = torch.arange(-length, length + 1, device=like.device)
        with no_autocast(like.device):
            if self.absolute is not None:
                parts["query"], parts["key"] = in_float32(self.absolute, length)
            if self.cross:  # each factor is added to the content's queries or keys
                parts = {"content_query": parts["query"] / self.absolute.scale, "content_key": parts["key"]}
            if self.relative is not None:
                parts["relative"] = in_float32(self.relative, distances[1:-1])
            if self.reset is not None:
                parts["theta"] = in_float32(self.reset, self.absolute)
            if self.rotation is not None:
                parts["rotation"] = self.rotation(distances[length:-1].to(like.dtype))
            if self.phases is not None:
                parts["phase"] = in_float32(self.phases)
            if self.embeddings is not None:
                parts["distances"] = in_float32(self.embeddings, distances)
        return Terms(length, **parts)

    def forward(self, length: int, num_keys: int | None = None, query_offset: int = 0) -> Terms:
        """Return the terms of `length` queries, from position `query_offset` on, and of the first `num_keys` keys.

        Args:
            length: `n`, the number of queries.
            num_keys: `m`; by default `query_offset + length`, the positions up to the last query, or all keys if
                they are not positions.
            query_offset: the position of the first query. In step `t` of decoding, `position(1, query_offset=t)` is
                row `t` of the first `t + 1` positions.

        Returns:
            The parts in use, in float32 or better; `.bias` is the sum `(H, n, m)`.
        """
        end = query_offset + length
        if num_keys is not None and self.num_keys is None:
            end = max(end, num_keys)
        num_keys = num_keys or self.num_keys
        tensors = [*self.parameters(), *self.buffers()]
        if self.may_cache(tensors):
            return self.cached(end, tensors).slice(length, num_keys, query_offset)
        terms = self.compute(end)
        whole = query_offset == 0 and num_keys == self.num_keys
        return terms if whole else terms.slice(length, num_keys, query_offset)

    def may_cache(self, tensors: list[Tensor]) -> bool:
        """Return whether terms may be cached: not with gradients, and not if a wrapper holds the parameters.

        DataParallel, FSDP and LoRA adapters are such wrappers. Inference tensors prevent caching: they have no version.
        """
        if self.training or torch.is_grad_enabled() or is_traced():
            return False
        num_parameters = sum(isinstance(tensor, nn.Parameter) for tensor in tensors)
        return num_parameters == self.num_parameters and not any(tensor.is_inference() for tensor in tensors)

    def cached(self, length: int, tensors: list[Tensor]) -> Terms:
        """Return terms of at least `length` positions; recompute them if too few or if parts or `tensors` changed."""
        key = [id(self), *self.children(), *((t.data_ptr(), t.device, t.dtype, t._version) for t in tensors)]
        known, _, terms = self._cache  # read once, because another thread may call `eval()`
        if known != key or terms.length < length:
            longer = min(1 << (length - 1).bit_length(), self.max_positions)  # rising lengths recompute a few times
            with torch.inference_mode(False), torch.no_grad():
                terms = self.compute(int(max(length, longer)))
            alive = [t.detach() for t in tensors]  # so that no new tensor reuses one of their addresses
            self._cache = key, alive, terms
        return terms

    def scale(self, head_dim: int) -> float:
        """Return the factor of the content logits, `1 / sqrt(num_terms * d_h)`, for heads of width `d_h`."""
        return (self.num_terms * head_dim) ** -0.5

    def train(self, mode: bool = True) -> "PositionBias":
        self._cache = ([], [], Terms())
        return super().train(mode)
