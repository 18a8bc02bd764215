r"""TUPE (Ke et al., ICLR 2021), DIET (Chen et al., EMNLP 2021) and their baselines in plain PyTorch, for Transformers.

    logit(i, j) = (x_i W^Q)(x_j W^K)^T / sqrt(t d_h) + reset(absolute(i, j) + relative(j - i)) + segment(s_i, s_j)

`t` is the number of products that the logit sums: 2 in TUPE, where the positions have one of their own. The terms
after the first ignore the words: they are computed once for the batch and, where the layers share them, for all layers.
This file is shipped with exported models: it imports no `tupe`. Parameters are called as in the fairseq plugin.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel, initialization
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    ModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.generic import can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from .configuration_tupe import TupeConfig


def at_least_float32(tensor: Tensor) -> Tensor:
    """Cast 16 bits to float32, in which position terms are computed, so that they are rounded once."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def layer_norm_at_least_float32(norm: nn.LayerNorm, vectors: Tensor) -> Tensor:
    """Apply a layer norm in float32 where the model is in 16 bits."""
    gain, shift = at_least_float32(norm.weight), at_least_float32(norm.bias)
    return F.layer_norm(at_least_float32(vectors), norm.normalized_shape, gain, shift, norm.eps)


def distances(length: int, device: torch.device) -> Tensor:
    """Return `j - i` of every pair of positions, `(n, n)`."""
    positions = torch.arange(length, device=device)
    return positions[None, :] - positions[:, None]


class UntiedAbsolute(nn.Module):
    """`absolute(i, j) = (LN(p_i) U^Q)(LN(p_j) U^K)^T / sqrt(t d_h)` (TUPE, eq. 7)."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        width, self.sets = config.hidden_size, config.position_sets
        head_dim = width // config.num_attention_heads
        self.scale = (num_products(config) * head_dim) ** -0.5
        self.table = nn.Embedding(config.max_position_embeddings, width)
        self.layer_norm = nn.LayerNorm(width, config.layer_norm_eps)
        self.query = nn.Linear(width, self.sets * head_dim, config.untied_projection_bias)
        self.key = nn.Linear(width, self.sets * head_dim, config.untied_projection_bias)

    def project(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return `LN(p) U^Q` and `LN(p) U^K` of `vectors` `(m, d)`, each `(S, m, d_h)` for `S` sets of parameters."""
        p = layer_norm_at_least_float32(self.layer_norm, vectors)

        def apply(projection: nn.Linear) -> Tensor:
            bias = None if projection.bias is None else at_least_float32(projection.bias)
            return F.linear(p, at_least_float32(projection.weight), bias).unflatten(-1, (self.sets, -1)).transpose(0, 1)

        return apply(self.query), apply(self.key)

    def factors(self, length: int) -> tuple[Tensor, Tensor]:
        return self.project(self.table.weight[:length])

    def forward(self, length: int) -> Tensor:
        query, key = self.factors(length)
        return (query * self.scale) @ key.transpose(1, 2)

    def self_correlation(self, vectors: Tensor) -> Tensor:
        """Return the correlation of each of `vectors` `(m, d)` with itself, `(m, S)`: theta of the reset."""
        query, key = self.project(vectors)
        return self.scale * (query * key).sum(-1).t()


class LowRankAbsolute(nn.Module):
    """`absolute(i, j) = P_Q[i] . P_K[j]` (DIET-ABS, eq. 1); with Linformer the keys are its `k` rows (eq. 4)."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        length, rank, self.num_keys = config.max_position_embeddings, config.position_rank, config.linformer_k or None
        self.query = nn.Parameter(torch.empty(config.position_sets, length, rank))
        self.key = nn.Parameter(torch.empty(config.position_sets, self.num_keys or length, rank))

    def forward(self, length: int) -> Tensor:
        query, key = self.query[:, :length], self.key[:, : self.num_keys or length]
        return at_least_float32(query) @ at_least_float32(key).transpose(1, 2)


class FreeAbsolute(nn.Module):
    """`absolute(i, j) = V[i, j]` (TUPE, appendix D)."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        length = config.max_position_embeddings
        self.weight = nn.Parameter(torch.empty(config.position_sets, length, length))

    def forward(self, length: int) -> Tensor:
        return at_least_float32(self.weight[:, :length, :length])


def bucket_starts(half: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each of T5's buckets but the first, in integers.

    Bucket `k` of the `m` logarithmic ones behind `e` exact ones begins at `D` with `D^m e^k >= max_distance^k e^m`.
    """
    exact, starts = half // 2, list(range(1, half // 2 + 1))
    steps = half - exact
    for k in range(1, steps):
        distance = starts[-1]
        while distance**steps * exact**k < max_distance**k * exact**steps:
            distance += 1
        starts.append(distance)
    return starts


class ByDistance(nn.Module):
    """Base of `relative(j - i)` as a function of the distance, `by_distance`: `(D,)` to `(S, D)`."""

    def forward(self, length: int, device: torch.device) -> Tensor:
        values = self.by_distance(torch.arange(1 - length, length, device=device))
        return values[:, distances(length, device) + length - 1]


class Relative(ByDistance, nn.Embedding):
    """`relative(j - i)`: one value a head for each distance, binned as in T5, clipped, or neither (DIET-REL)."""

    def __init__(self, config: TupeConfig, width: int | None = None) -> None:
        most = config.max_position_embeddings - 1 if config.relative == "unbinned" else config.relative_max_distance
        rows = config.relative_buckets if config.relative == "bucketed" else 2 * most + 1
        super().__init__(rows, config.position_sets if width is None else width)
        self.kind = config.relative
        self.middle = self.num_embeddings // 2
        if self.kind == "bucketed":
            self.starts = bucket_starts(self.middle, config.relative_max_distance)

    def values(self) -> Tensor:
        """Return the value of each row for each set, `(rows, S)`."""
        return at_least_float32(self.weight)

    def row(self, distance: Tensor) -> Tensor:
        if self.kind != "bucketed":
            return distance.clamp(-self.middle, self.middle) + self.middle
        reached = [distance.abs() >= start for start in self.starts]  # numbers, as a tensor would wait for a GPU
        return sum(reached, self.middle * (distance > 0))

    def by_distance(self, distance: Tensor) -> Tensor:
        return self.values()[self.row(distance)].t()


class ParametricRelative(Relative):
    """`relative(j - i) = (r_{j-i} F^Q)(r_{j-i} F^K)^T`, distances clipped (TUPE, appendix D)."""

    def __init__(self, config: TupeConfig) -> None:
        width = config.hidden_size
        super().__init__(config, width)
        self.head_dim = width // config.num_attention_heads
        self.query = nn.Linear(width, config.position_sets * self.head_dim, bias=False)
        self.key = nn.Linear(width, config.position_sets * self.head_dim, bias=False)

    def values(self) -> Tensor:
        vectors, query, key = (at_least_float32(w) for w in (self.weight, self.query.weight, self.key.weight))
        return ((vectors @ query.t()) * (vectors @ key.t())).unflatten(-1, (-1, self.head_dim)).sum(-1)


def of_side(values: Tensor, distance: Tensor) -> Tensor:
    """Choose from `values` `(2, S)`, for keys before the query and after it, at each `distance` `(D,)`: `(S, D)`."""
    before, after = values.unsqueeze(-1)
    return torch.where(distance > 0, after, before)


def alibi_slopes(sets: int, heads: int, device: torch.device) -> Tensor:
    """Return ALiBi's slopes, `2^(-8 (h + 1) / H)`, layer by layer, `(S,)`.

    Where `H` is no power of 2, they mix those of the powers below and above it. They are computed on the device, as a
    copy from the host would wait for a GPU.
    """
    power = 1 << (heads.bit_length() - 1)
    head = torch.arange(sets, dtype=torch.float32, device=device) % heads
    return torch.where(head < power, -8 * (head + 1) / power, -4 * (2 * (head - power) + 1) / power).exp2()


class AlibiRelative(ByDistance):
    """`relative(j - i) = -m |j - i|`, `m` fixed or learnt for each side (Press et al. 2022)."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.sides = config.relative_sides
        self.heads = config.position_sets, config.num_attention_heads
        learned = self.sides == "learned"
        self.slope = nn.Parameter(torch.empty(2, config.position_sets)) if learned else None

    def reset_parameters(self) -> None:
        if self.slope is not None:
            slopes = alibi_slopes(*self.heads, self.slope.device).view(-1, self.heads[1])  # of each layer
            sides = torch.stack((slopes, slopes.flip(1))).flatten(1)
            initialization.copy_(self.slope, sides.expm1().log())

    def by_distance(self, distance: Tensor) -> Tensor:
        if self.slope is not None:
            return -of_side(F.softplus(at_least_float32(self.slope)), distance) * distance.abs()
        far = distance.abs().float()
        return alibi_slopes(*self.heads, distance.device).unsqueeze(-1) * -far


class KerpleRelative(ByDistance):
    """`relative(j - i) = -p log(1 + a |j - i|)`, `p` and `a` for each side (KERPLE-log, Chi et al. 2022)."""

    least = 0.01

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.height = nn.Parameter(torch.empty(2, config.position_sets))
        self.rate = nn.Parameter(torch.empty(2, config.position_sets))

    def reset_parameters(self) -> None:
        for parameter, most in ((self.height, 2), (self.rate, 1)):
            values = most * torch.rand(parameter.shape, device=parameter.device)
            initialization.copy_(parameter, (values - self.least).clamp(min=self.least).expm1().log())

    def by_distance(self, distance: Tensor) -> Tensor:
        positive = (self.least + F.softplus(at_least_float32(p)) for p in (self.height, self.rate))
        height, rate = (of_side(values, distance) for values in positive)
        return -height * (rate * distance.abs()).log1p()


class FireRelative(ByDistance):
    """`relative(j - i) = f(sgn(j - i) min(1, log(1 + c |j - i|) / log(1 + c L)))`, `f` learnt (Li et al. 2024)."""

    unit = 64

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.first_length = config.fire_length or config.max_position_embeddings
        self.rate = nn.Parameter(torch.empty(1))
        self.length = nn.Parameter(torch.empty(1))
        self.hidden_weight = nn.Parameter(torch.empty(config.fire_width))
        self.hidden_bias = nn.Parameter(torch.empty(config.fire_width))
        self.out_weight = nn.Parameter(torch.empty(config.position_sets, config.fire_width))
        self.out_bias = nn.Parameter(torch.empty(config.position_sets))

    def reset_parameters(self) -> None:
        initialization.constant_(self.rate, 0.1)
        initialization.constant_(self.length, self.first_length / self.unit)
        bound = len(self.hidden_bias) ** -0.5
        for parameter, most in (
            (self.hidden_weight, 1), (self.hidden_bias, 1), (self.out_weight, bound), (self.out_bias, bound)
        ):  # fmt: skip
            initialization.uniform_(parameter, -most, most)

    def by_distance(self, distance: Tensor) -> Tensor:
        rate, last = at_least_float32(self.rate).abs(), self.unit * at_least_float32(self.length).abs()
        share = (rate * distance.abs()).log1p() / ((rate * last).log1p() + 1e-6)
        share = distance.sign() * share.clamp(max=1)
        hidden_weight, hidden_bias = at_least_float32(self.hidden_weight), at_least_float32(self.hidden_bias)
        hidden = (share.unsqueeze(-1) * hidden_weight + hidden_bias).relu()  # D w
        return F.linear(hidden, at_least_float32(self.out_weight), at_least_float32(self.out_bias)).t()


def log_bucket_starts(buckets: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each of DeBERTa's buckets `1 .. B`, in integers."""
    exact = buckets // 2
    starts = list(range(1, exact + 1))
    for c in range(buckets - exact):
        distance, bound = starts[-1], (max_distance - 1) ** c * exact ** (exact - 1)
        while distance ** (exact - 1) * exact**c <= bound:
            distance += 1
        starts.append(distance)
    return starts


class RelativeEmbeddings(nn.Module):
    """DeBERTa's table `P: 2k x d` of distances, clipped or in buckets, with a layer norm."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        width, most, buckets = config.hidden_size, config.relative_max_distance, config.relative_buckets
        self.starts = log_bucket_starts(buckets, most) if buckets else None
        self.far = buckets or most
        self.table = nn.Embedding(2 * self.far, width)
        self.layer_norm = nn.LayerNorm(width, config.layer_norm_eps)

    def forward(self, length: int, device: torch.device) -> Tensor:
        """Return the vectors of the distances `j - i` from `1 - n` to `n - 1`, `(2n - 1, d)`."""
        away = torch.arange(length - 1, -length, -1, device=device)
        if self.starts is not None:
            starts = torch.tensor(self.starts, device=device)
            away = away.sign() * torch.bucketize(away.abs(), starts, right=True)
        vectors = self.table((away + self.far).clamp(0, 2 * self.far - 1))
        return layer_norm_at_least_float32(self.layer_norm, vectors)


class DisentangledRelative(nn.Module):
    """`q_i . P[i - j] W^K + k_j . P[i - j] W^Q`, by the words' projections (He et al. 2021)."""

    value = None

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()

    def logits(self, query: Tensor, key: Tensor, vectors: Tensor, words: nn.Linear, scale: float) -> Tensor:
        """Return `(B, H, n, n)`: products with all `vectors` `(2n - 1, d)`, from which each cell takes its own."""
        length = query.shape[2]
        row = (distances(length, query.device) + length - 1).expand(*query.shape[:2], -1, -1)

        def in_heads(x: Tensor) -> Tensor:
            return (scale * x).unflatten(-1, (query.shape[1], -1)).permute(1, 2, 0)  # 2n-1 d -> H d_h 2n-1

        of_queries, of_keys, _ = words(vectors).chunk(3, -1)
        return (query @ in_heads(of_keys)).gather(-1, row) + (key @ in_heads(of_queries)).gather(-1, row.mT).mT


#: Relative terms that ignore the words. `TupeSelfAttention` has those that meet them, `shaw` and `deberta`.
RELATIVE = {
    "bucketed": Relative,
    "clipped": Relative,
    "unbinned": Relative,
    "parametric": ParametricRelative,
    "alibi": AlibiRelative,
    "kerple": KerpleRelative,
    "fire": FireRelative,
}


class Reset(nn.Module):
    """`[CLS]` untied (TUPE, eq. 10): row 0 of the correlation is `theta_1`, the rest of column 0 `theta_2`."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        untied, own = config.absolute == "untied", config.reset == "release" and config.relative in RELATIVE
        self.vectors = nn.Parameter(torch.empty(2, config.hidden_size)) if untied else None
        self.scalars = None if untied else nn.Parameter(torch.empty(2, config.position_sets))
        self.relative = nn.Parameter(torch.empty(2, config.position_sets)) if own else None

    def forward(self, correlation: Tensor, absolute: nn.Module | None) -> Tensor:
        """Apply the reset to `correlation` `(S, n, n)`."""
        vectors = self.vectors
        theta = at_least_float32(self.scalars) if vectors is None else absolute.self_correlation(vectors)  # (2, S)
        if self.relative is not None:
            theta = theta + at_least_float32(self.relative)
        theta_1, theta_2 = theta[:, :, None, None]
        length = correlation.shape[-1]
        others = torch.cat([theta_2.expand(-1, length - 1, 1), correlation[:, 1:, 1:]], dim=2)
        return torch.cat([theta_1.expand(-1, 1, length), others], dim=1)


def rotary_angles(config: TupeConfig, length: int, device: torch.device) -> Tensor:
    """Return cosines, and sines with the sign of their half, `(2, n, r)` in float32 (Su et al. 2021)."""
    head_dim = config.hidden_size // config.num_attention_heads
    width = head_dim if config.rotary_dims == -1 else config.rotary_dims
    plane, position = (torch.arange(n, dtype=torch.float32, device=device) for n in (width // 2, length))
    angles = position.unsqueeze(-1) * (1 / config.rotary_base ** (2 * plane / width))
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the columns `c` and `c + r/2` of `x` `(B, H, n, d_h)` by the angles of the positions, in float32."""
    cos, sin = rotation
    width = cos.shape[-1]
    columns, others = at_least_float32(x[..., :width]), x[..., width:]
    halves = torch.cat((columns[..., width // 2 :], columns[..., : width // 2]), -1)
    return torch.cat(((columns * cos + halves * sin).to(x.dtype), others), -1)


class Terms(NamedTuple):
    """Parts that the positions have in attention; `None` for a term that the model lacks."""

    bias: Tensor | None = None  # is added to the logits, `(S, n, m)`
    query: Tensor | None = None  # of `untied_cross`, is added to the words' queries after the rotation, `(S, n, d_h)`
    key: Tensor | None = None  # the same for the keys
    rotation: Tensor | None = None  # of queries and keys, `(2, n, r)`
    embeddings: Tensor | None = None  # of distances, `(2n - 1, d)`, which the layers project


def num_products(config: TupeConfig) -> int:
    """Return `t`, the number of products that the logit sums."""
    return {"untied": 2, "untied_cross": 4}.get(config.absolute, 1) + 2 * (config.relative == "deberta")


class PositionBias(nn.Module):
    """`reset(absolute + relative)`."""

    freezable: ClassVar = ("bias", "query", "key", "embeddings")

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        absolute = {"untied": UntiedAbsolute, "low_rank": LowRankAbsolute, "free": FreeAbsolute}.get(
            config.absolute.removesuffix("_cross").removesuffix("_input")
        )
        relative = RELATIVE.get(config.relative)
        self.absolute = None if absolute is None else absolute(config)
        self.relative = None if relative is None else relative(config)
        self.reset = None if config.reset == "none" else Reset(config)
        self.embeddings = RelativeEmbeddings(config) if config.relative == "deberta" else None
        self.cross = config.absolute == "untied_cross"
        self.num_keys = config.linformer_k or None
        self.config = config
        self.frozen = False

    def forward(self, length: int, device: torch.device) -> Terms:
        """Return the terms of the first `length` positions, in float32."""
        rotation = rotary_angles(self.config, length, device) if self.config.rotary_dims else None
        if self.frozen:
            bias, *others, embeddings = (getattr(self, f"frozen_{name}") for name in self.freezable)
            if embeddings is not None:
                middle = len(embeddings) // 2
                embeddings = embeddings[middle - length + 1 : middle + length]
            return Terms(
                None if bias is None else bias[:, :length, : self.num_keys or length],
                *(None if other is None else other[:, :length] for other in others),
                rotation,
                embeddings,
            )
        terms = [] if self.absolute is None or self.cross else [self.absolute(length)]
        if self.relative is not None:
            terms.append(self.relative(length, device))
        bias = sum(terms[1:], terms[0]) if terms else None
        if self.reset is not None:
            bias = self.reset(bias, self.absolute)
        query, key = self.absolute.factors(length) if self.cross else (None, None)
        embeddings = None if self.embeddings is None else self.embeddings(length, device)
        return Terms(bias, query, key, rotation, embeddings)

    @torch.no_grad()
    def freeze(self, length: int, device: torch.device) -> None:
        """Replace the parameters by the finished terms of `length` positions, as for ONNX.

        The rotation has no parameters and is still computed, as a cast of the model to 16 bits would round a buffer.
        """
        terms = self(length, device)
        for name in self.freezable:
            term = getattr(terms, name)
            self.register_buffer(f"frozen_{name}", None if term is None else term.contiguous())
        self.absolute = self.relative = self.reset = self.embeddings = None
        self.frozen = True


def is_token(input_ids: Tensor, config: TupeConfig) -> Tensor:
    """Tell which of `input_ids` are no padding: all, where the configuration names no padding."""
    return input_ids.ne(-1 if config.pad_token_id is None else config.pad_token_id)


def segment_ids(input_ids: Tensor, config: TupeConfig) -> Tensor:
    """Return the segment of each token: `<s> a </s>` is 0, and from the second of two separators on it is 1.

    With one separator between the texts of a pair, all that follows it is 1, except padding.
    """
    is_separator = input_ids.eq(config.eos_token_id)
    if config.pair_separators == 1:
        behind = F.pad(is_separator[:, :-1], (1, 0)).cumsum(1).clamp(max=1)
        return behind * is_token(input_ids, config)
    second = F.pad(is_separator[:, 1:] & is_separator[:, :-1], (1, 0))
    return second.cumsum(1).clamp(max=1)


class SegmentAttention(nn.Module):
    """`segment(s_i, s_j) = E_S[s_i, s_j]` (DIET, eq. 2)."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        layers = 1 if config.sharing == "layer" else config.num_hidden_layers
        self.weight = nn.Parameter(torch.empty(layers, config.position_sets // layers, 2, 2))

    def forward(self, segments: Tensor, layer: int) -> Tensor:
        """Return what is added to the logits, `(B, H, n, n)`, for `segments` `(B, n)`."""
        values = at_least_float32(self.weight[layer])
        return values[:, segments[:, :, None], segments[:, None, :]].transpose(0, 1)


class ShawRelative(nn.Module):
    """Vectors `a` by clipped distance join the keys, and the values: `q_i . (k_j + a[j - i])` (Shaw et al. 2018)."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.max_distance = config.relative_max_distance
        shape = 2 * self.max_distance + 1, config.hidden_size // config.num_attention_heads
        self.key = nn.Parameter(torch.empty(shape))
        self.value = nn.Parameter(torch.empty(shape)) if config.shaw_values else None

    def row(self, like: Tensor) -> Tensor:
        """Return the row of every pair's distance, `(B, H, n, n)` for `like` `(B, H, n, ...)`."""
        distance = distances(like.shape[2], like.device).clamp(-self.max_distance, self.max_distance)
        return (distance + self.max_distance).expand(*like.shape[:2], -1, -1)

    def logits(self, query: Tensor, scale: float) -> Tensor:
        """Return `scale q_i . a[j - i]`: products with all vectors, from which each cell takes its own."""
        return (query @ (scale * self.key).to(query.dtype).t()).gather(-1, self.row(query))

    def weighted_values(self, weights: Tensor) -> Tensor:
        """Return `sum_j weight_ij a^V[j - i]`, `(B, n, H, d_h)`, for `weights` `(B, H, n, n)`."""
        by_row = weights.new_zeros(*weights.shape[:-1], len(self.value)).scatter_add(-1, self.row(weights), weights)
        return (by_row @ self.value.to(weights.dtype)).transpose(1, 2)


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    **kwargs: object,
) -> tuple[Tensor, Tensor]:
    """Compute the equation as it is written; return the weights too."""
    logits = (query * scaling) @ key.transpose(2, 3)
    if position_bias is not None:
        logits = logits + position_bias
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        logits = logits.masked_fill(~attention_mask, torch.finfo(logits.dtype).min)
    elif attention_mask is not None:
        logits = logits + attention_mask
    weights = F.dropout(logits.softmax(-1, dtype=torch.float32).to(query.dtype), dropout, module.training)
    return (weights @ value).transpose(1, 2), weights


class LengthProjection(nn.Module):
    """Linformer's `E`: `k` mixtures of the positions for keys and values; padding counts as zero (Wang et al. 2020)."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.linformer_k, config.max_position_embeddings))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight[:, : x.shape[1]] @ x


class TupeSelfAttention(nn.Module):
    """`softmax(logit) x W^V W^O`, in heads."""

    is_causal = False

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.num_heads = config.num_attention_heads
        self.scaling = 1 / math.sqrt(num_products(config) * (width // self.num_heads))
        self.dropout = config.attention_probs_dropout_prob
        self.qkv_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        in_layer = {"shaw": ShawRelative, "deberta": DisentangledRelative}.get(config.relative)
        self.relative = None if in_layer is None else in_layer(config)
        self.projection = LengthProjection(config) if config.linformer_k else None

    def project(self, x: Tensor, padding: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, each `(B, H, n, d_h)`; with Linformer keys and values `(B, H, k, d_h)`."""
        if self.projection is None:
            parts = self.qkv_proj(x).chunk(3, -1)
        else:
            mixed = self.projection(x if padding is None else x.masked_fill(padding, 0))
            (weight, *others), (bias, *shifts) = self.qkv_proj.weight.chunk(3), self.qkv_proj.bias.chunk(3)
            parts = F.linear(x, weight, bias), *(F.linear(mixed, w, b) for w, b in zip(others, shifts))
        query, key, value = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts)
        return query, key, value

    def forward(
        self, x: Tensor, position: Terms, attention_mask: Tensor | None, padding: Tensor | None, **kwargs: object
    ) -> tuple[Tensor, Tensor | None]:
        """Map `x` `(B, n, d)` to `(B, n, d)`, by the layer's terms; return the weights too where they are known."""
        query, key, value = self.project(x, padding)
        bias, position_query, position_key, rotation, embeddings = position
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        if position_query is not None:
            query, key = query + position_query.to(query.dtype), key + position_key.to(key.dtype)
        bias = None if bias is None else bias.to(query.dtype)
        if self.relative is not None:
            asked = () if embeddings is None else (key, embeddings, self.qkv_proj)
            relative = self.relative.logits(query, *asked, scale=self.scaling)
            bias = relative if bias is None else bias + relative
        implementation = "eager" if self.config.shaw_values else self.config._attn_implementation
        if bias is not None and implementation == "flex_attention":  # it reads every index
            bias = bias.expand(len(x), self.num_heads, -1, -1)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        out, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask if self.projection is None else None,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
            position_bias=bias,
            **kwargs,
        )
        if self.relative is not None and self.relative.value is not None:
            out = out + self.relative.weighted_values(weights)
        return self.out_proj(out.flatten(2)), weights


class TupeLayer(GradientCheckpointingLayer):
    """Attention and feed-forward part, each with its residual; post-norm (BERT) or pre-norm."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.normalize_before = config.encoder_normalize_before
        self.self_attn = TupeSelfAttention(config)
        self.self_attn_layer_norm = nn.LayerNorm(width, config.layer_norm_eps)
        self.activation = ACT2FN[config.hidden_act]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.activation_dropout = nn.Dropout(config.activation_dropout)
        self.fc1 = nn.Linear(width, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, width)
        self.final_layer_norm = nn.LayerNorm(width, config.layer_norm_eps)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.fc2(self.activation_dropout(self.activation(self.fc1(x)))))

    def forward(
        self, x: Tensor, position: Terms, attention_mask: Tensor | None, padding: Tensor | None, **kwargs: object
    ) -> Tensor:
        """Map `x` `(B, n, d)` to `(B, n, d)`."""

        def attend(x: Tensor) -> Tensor:
            return self.dropout(self.self_attn(x, position, attention_mask, padding, **kwargs)[0])

        if self.normalize_before:
            x = x + attend(self.self_attn_layer_norm(x))
            return x + self.feed_forward(self.final_layer_norm(x))
        x = self.self_attn_layer_norm(x + attend(x))
        return self.final_layer_norm(x + self.feed_forward(x))


class TupePreTrainedModel(PreTrainedModel):
    """Base of all models: their initialisation, and what Transformers asks about them."""

    config_class = TupeConfig
    base_model_prefix = "tupe"
    supports_gradient_checkpointing = True
    _no_split_modules: ClassVar = ["TupeLayer"]
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _keys_to_ignore_on_load_unexpected: ClassVar = [r"^(lm_head|classifi.*|qa_outputs)\."]  # of other heads
    _can_record_outputs: ClassVar = {"hidden_states": TupeLayer, "attentions": TupeSelfAttention}

    @property
    def _supports_flash_attn(self) -> bool:
        """Tell whether nothing is added to the logits, as FlashAttention takes no bias."""
        config = self.config
        terms = config.absolute in ("none", "input") and config.relative == "none" and config.segment != "per_head"
        return terms and not config.linformer_k

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, LengthProjection):
            initialization.normal_(module.weight, std=module.weight.shape[1] ** -0.5)  # E x has the scale of x
        elif isinstance(module, (LowRankAbsolute, FreeAbsolute, Reset, SegmentAttention, ShawRelative)):
            for parameter in module.parameters(recurse=False):
                initialization.normal_(parameter, std=self.config.initializer_range)
        elif isinstance(module, (AlibiRelative, KerpleRelative, FireRelative)):
            module.reset_parameters()

    def save_pretrained(self, save_directory: str | os.PathLike, **kwargs: Any) -> None:
        """Also keep what says where the model came from: `LICENSE`, and its card as `BASE_MODEL.md`.

        `README.md` is left to the card of the new model, which `Trainer.create_model_card` writes.
        """
        source, target = Path(self.name_or_path), Path(save_directory)
        if any(isinstance(module, PositionBias) and module.frozen for module in self.modules()):
            raise ValueError("frozen positions have no parameters to save: save the model before freeze_positions()")
        super().save_pretrained(save_directory, **kwargs)
        card = "BASE_MODEL.md" if (source / "BASE_MODEL.md").is_file() else "README.md"
        for name, kept in ((card, "BASE_MODEL.md"), ("LICENSE", "LICENSE")):
            if self.name_or_path and (source / name).is_file() and source.resolve() != target.resolve():
                shutil.copyfile(source / name, target / kept)


def check_padding(attention_mask: Tensor) -> None:
    """Raise `ValueError` if the mask `(B, n)` hides the first token of a sequence, as padding on the left does.

    Positions count from column 0, where `[CLS]` is read. A mask on a GPU is not checked, because that would wait for
    the GPU, and none is while the model is traced.
    """
    if attention_mask.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return
    if (attention_mask[:, 0].eq(0) & attention_mask.ne(0).any(1)).any():  # an empty sequence may be all padding
        raise ValueError(
            "attention_mask hides the first token of a sequence, but positions count from the first column: pad on the "
            "right (tokenizer.padding_side = 'right')"
        )


class TupeModel(TupePreTrainedModel):
    """The encoder: tokens to features, of sequences `<s> a </s>` or `<s> a </s> </s> b </s>`, padded on the right.

    With `pair_separators` 1, a pair is `<s> a </s> b </s>`.
    """

    def __init__(self, config: TupeConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        at_input = config.absolute in ("input", "low_rank_input")
        self.embed_tokens = nn.Embedding(config.vocab_size, width, config.pad_token_id)
        self.input_positions = nn.Embedding(config.max_position_embeddings, width) if at_input else None
        self.input_segments = nn.Embedding(2, width) if config.segment == "input" else None
        self.position_bias = PositionBias(config)
        self.segment_attention = SegmentAttention(config) if config.segment == "per_head" else None
        norms = [nn.LayerNorm(width, config.layer_norm_eps) for _ in range(2)]
        self.layernorm_embedding = nn.Identity() if config.no_layernorm_embedding else norms[0]
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layers = nn.ModuleList(TupeLayer(config) for _ in range(config.num_hidden_layers))
        self.layer_norm = norms[1] if config.encoder_normalize_before else nn.Identity()
        self.gradient_checkpointing = False
        self.post_init()

    def freeze_positions(self) -> None:
        """Replace the position parameters by the finished terms of all lengths, which cannot be trained."""
        self.position_bias.freeze(self.config.max_position_embeddings, self.device)

    def layer_terms(self, length: int, segments: Tensor | None, dtype: torch.dtype) -> list[Terms]:
        """Return the terms of each layer, with the axes `(1 or B, 1 or H, n, m)`; shared ones are computed once."""
        layers = 1 if self.config.sharing == "layer" else len(self.layers)
        with torch.autocast(self.device.type, enabled=False):
            *terms, rotation, embeddings = self.position_bias(length, self.device)
            embeddings = None if embeddings is None else embeddings.to(dtype)
            split = (
                [None] * layers if t is None else t.to(dtype).unflatten(0, (layers, 1, -1)).unbind() for t in terms
            )
            of_layers = [Terms(*layer, rotation, embeddings) for layer in zip(*split)]
            if self.segment_attention is not None:
                for i, term in enumerate(of_layers):
                    own = self.segment_attention(segments, i).to(dtype)
                    of_layers[i] = term._replace(bias=own if term.bias is None else term.bias + own)
        return of_layers * (len(self.layers) // layers)

    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: object,
    ) -> BaseModelOutput:
        """Compute features `(B, n, d)`.

        Args:
            input_ids: `(B, n)`, `n` at most `max_position_embeddings`.
            attention_mask: `(B, n)`, 0 at padding, which is on the right; by default, padding is where tokens are
                `<pad>`.
            token_type_ids: `(B, n)`, segments 0 and 1; by default, the separators tell them.
            inputs_embeds: `(B, n, d)`, in place of `input_ids`; all is then segment 0 by default.

        Raises:
            ValueError: if a sequence is too long, and on the CPU for padding on the left.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        x = x.to(self.dtype)  # B n d
        length = x.shape[1]
        if length > self.config.max_position_embeddings:
            raise ValueError(
                f"a sequence of {length} tokens is longer than the {self.config.max_position_embeddings} positions of "
                "the model: cut it (truncation=True)"
            )
        if self.config.linformer_k and attention_mask is not None and attention_mask.ndim == 4:
            raise ValueError("Linformer's keys are mixtures of all positions: give attention_mask (B, n)")
        if attention_mask is None and input_ids is not None:
            attention_mask = is_token(input_ids, self.config)
        segments = token_type_ids
        if segments is None and self.config.segment != "none":
            alone = torch.zeros(x.shape[:2], dtype=torch.long, device=x.device)
            segments = alone if input_ids is None else segment_ids(input_ids, self.config)
        if self.input_positions is not None:
            x = x + self.input_positions.weight[:length]
        if self.input_segments is not None:
            x = x + self.input_segments(segments)
        x = self.dropout(self.layernorm_embedding(x))
        padding = None
        if attention_mask is not None and attention_mask.ndim == 2:
            check_padding(attention_mask)
            padding = attention_mask.eq(0).unsqueeze(-1)  # B n 1
            x = x.masked_fill(padding, 0)
        elif attention_mask is not None and not attention_mask.is_floating_point():  # B H n n
            attention_mask = attention_mask.bool()
        mask = create_bidirectional_mask(self.config, x, attention_mask)
        for layer, position in zip(self.layers, self.layer_terms(length, segments, x.dtype)):
            x = layer(x, position, mask, padding, **kwargs)
        return BaseModelOutput(last_hidden_state=self.layer_norm(x))


class TupeForTask(TupePreTrainedModel):
    """The encoder and a head, which a subclass adds: its modules, `scores`, `loss`, and its class of outputs."""

    output_class: ClassVar[type[ModelOutput]]

    def __init__(self, config: TupeConfig) -> None:
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.add_head(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, n)
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | tuple[Tensor, Tensor] | None = None,
        **kwargs: object,
    ) -> ModelOutput:
        """Compute scores, and the loss if there are labels. Other arguments are those of `TupeModel`."""
        outputs = self.tupe(input_ids, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        scores = self.scores(outputs.last_hidden_state)
        loss = None if labels is None else self.loss(*scores, labels, **kwargs)
        return self.output_class(loss, *scores, outputs.hidden_states, outputs.attentions)


class LanguageModelHead(nn.Module):
    """RoBERTa's: dense layer, activation, layer norm, and the word embeddings."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.layer_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, features: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(self.activation(self.dense(features))))  # B n d -> B n V


class TupeForMaskedLM(TupeForTask):
    """The word at every position; `labels` `(B, n)`, -100 where there is nothing to predict."""

    output_class = MaskedLMOutput
    _tied_weights_keys: ClassVar = {"lm_head.decoder.weight": "tupe.embed_tokens.weight"}

    def add_head(self, config: TupeConfig) -> None:
        self.lm_head = LanguageModelHead(config)

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head.decoder = new_embeddings

    def scores(self, features: Tensor) -> tuple[Tensor]:
        return (self.lm_head(features),)  # B n V

    def loss(self, logits: Tensor, labels: Tensor, **kwargs: object) -> Tensor:
        return self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)


class ClassificationHead(nn.Module):
    """fairseq's: dense layer, activation and output, on `[CLS]`; or ELECTRA's, the output alone."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.dense = None if config.linear_heads else nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.pooler_act]
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, features: Tensor) -> Tensor:
        x = self.dropout(features[:, 0])  # B n d -> B d
        if self.dense is not None:
            x = self.dropout(self.activation(self.dense(x)))
        return self.out_proj(x)  # B L


class TupeForSequenceClassification(TupeForTask):
    """A class of a sentence or a pair, or with one label a number, `labels` `(B,)`; or several classes, `(B, L)`."""

    output_class = SequenceClassifierOutput

    def add_head(self, config: TupeConfig) -> None:
        self.classifier = ClassificationHead(config)

    def scores(self, features: Tensor) -> tuple[Tensor]:
        return (self.classifier(features),)  # B L

    def loss(self, logits: Tensor, labels: Tensor, **kwargs: object) -> Tensor:
        problem = self.config.problem_type
        if self.config.num_labels == 1 or labels.is_floating_point() or problem == "multi_label_classification":
            logits = at_least_float32(logits)
            labels = labels.to(logits.dtype)
        return self.loss_function(labels=labels, pooled_logits=logits, config=self.config, **kwargs)


class TupeForTokenClassification(TupeForTask):
    """A class of every token; `labels` `(B, n)`, -100 where there is none."""

    output_class = TokenClassifierOutput

    def add_head(self, config: TupeConfig) -> None:
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def scores(self, features: Tensor) -> tuple[Tensor]:
        return (self.classifier(self.dropout(features)),)  # B n L

    def loss(self, logits: Tensor, labels: Tensor, **kwargs: object) -> Tensor:
        return self.loss_function(logits, labels, self.config, **kwargs)


class TupeForQuestionAnswering(TupeForTask):
    """Where an answer begins and ends."""

    output_class = QuestionAnsweringModelOutput

    def add_head(self, config: TupeConfig) -> None:
        self.qa_outputs = nn.Linear(config.hidden_size, 2)

    def scores(self, features: Tensor) -> tuple[Tensor, ...]:
        return self.qa_outputs(features).unbind(-1)  # 2 x (B n)

    def loss(self, start: Tensor, end: Tensor, labels: tuple[Tensor, Tensor], **kwargs: object) -> Tensor:
        return self.loss_function(start, end, *labels, **kwargs)

    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, n)
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,  # (B,)
        end_positions: Tensor | None = None,
        **kwargs: object,
    ) -> QuestionAnsweringModelOutput:
        """Score every token as the first and as the last. Other arguments are those of `TupeModel`."""
        labels = None if start_positions is None else (start_positions, end_positions)
        return super().forward(input_ids, attention_mask, token_type_ids, inputs_embeds, labels, **kwargs)


__all__ = [
    "TupeForMaskedLM",
    "TupeForQuestionAnswering",
    "TupeForSequenceClassification",
    "TupeForTokenClassification",
    "TupeModel",
    "TupePreTrainedModel",
]
