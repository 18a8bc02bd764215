"""Launch the kernels: their arguments, their grids, and the memory that they write."""

import functools
from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from tupe.attention.kernels.bias import ALIGNED_ROW
from tupe.attention.kernels.bias_gradient import bias_gradient_kernel
from tupe.attention.kernels.forward import forward_kernel
from tupe.attention.kernels.key_gradient import key_gradient_kernel
from tupe.attention.kernels.query_gradient import query_gradient_kernel
from tupe.attention.kernels.tiles import choose_tile

RANDOM_LEVELS = 1 << 16  # dropout's probability is rounded to a multiple of 1 / RANDOM_LEVELS


class Inputs(NamedTuple):
    """Tensors that the kernels read. If `starts` is set, `(B, T)` is `(1, N)` in all but the bias.

    query, key, value: `(B, H, T, d_h)`, the last dimension contiguous.
    bias: broadcastable to `(B, H, T_q, T_k)`, of four dimensions. The tensors below are contiguous.
    pos_q, pos_k, relative, segment: as in `Terms`, with factors of the query's type; theta: `(H,)`, theta_2.
    segments, padding: `(B, T_k)` uint8.
    seed: `(1,)` int64, for dropout; `None` without dropout.
    starts: `(B + 1,)` int32: the first token of each packed sequence, then `N`; `None` for a padded batch.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None = None
    pos_q: Tensor | None = None
    pos_k: Tensor | None = None
    relative: Tensor | None = None
    theta: Tensor | None = None
    segment: Tensor | None = None
    segments: Tensor | None = None
    padding: Tensor | None = None
    seed: Tensor | None = None
    starts: Tensor | None = None


class Options(NamedTuple):
    """Numbers and flags of `biased_attention`; `max_length` is `T` of packed sequences."""

    scale: float
    dropout_p: float
    causal: bool
    max_length: int = 0


class Launcher:
    """Launches the kernels on one attention.

    The kernels compute short sequences faster than Python launches them, so the methods do little.
    """

    def __init__(self, inputs: Inputs, options: Options) -> None:
        query, key, value, bias, starts = inputs.query, inputs.key, inputs.value, inputs.bias, inputs.starts
        self.inputs = inputs
        self.B, self.H, self.T_q, self.D = query.shape
        self.T_k = key.shape[2]
        self.P = 0 if inputs.pos_q is None else inputs.pos_q.shape[-1]
        if starts is not None:
            self.B, self.T_q, self.T_k = len(starts) - 1, options.max_length, options.max_length
        if bias is not None:
            bias = with_aligned_rows(bias).expand(self.B, self.H, self.T_q, self.T_k)
        dropped = round(options.dropout_p * RANDOM_LEVELS)
        #: Arguments by the names of the kernels' parameters.
        self.arguments = {
            **{name.upper(): tensor for name, tensor in inputs._asdict().items()},
            "Q": query,
            "K": key,
            "V": value,
            "BIAS": bias,
            "LENGTHS": None,
            "ORDER": None,
            "B": self.B,
            "H": self.H,
            "T_q": self.T_q,
            "T_k": self.T_k,
            "scale": options.scale,
            "threshold": dropped,
            "keep_probability": 1 - dropped / RANDOM_LEVELS,
            "CAUSAL": options.causal,
            "D": self.D,
            "BLOCK_D": block(self.D),
            "P": self.P,
            "BLOCK_P": block(self.P),
        }
        for name, tensor in (("q", query), ("k", key), ("v", value)):
            of_batch, of_head, of_token, _ = tensor.stride()
            of_batch = of_batch if starts is None else of_token  # packed sequences are located by token
            self.arguments[f"{name}_strides"] = (of_batch, of_head, of_token)
        self.arguments["bias_strides"] = (0, 0, 0, 0) if bias is None else bias.stride()

    def tile(self, kernel: str) -> dict[str, int]:
        query = self.inputs.query
        structured = self.P > 0 or self.inputs.relative is not None or self.inputs.segment is not None
        return choose_tile(kernel, max(block(self.D), block(self.P)), query.element_size(), structured, query.device)

    def run(self, kernel: triton.JITFunction, grid: tuple[int, ...], tile: dict[str, int], **arguments) -> None:
        """Launch `kernel` with the arguments that it has parameters for, by position, which is faster."""
        even = self.inputs.starts is None and self.T_k % tile["BLOCK_N"] == 0
        known = {**self.arguments, **tile, **arguments, "EVEN_KEYS": even}
        compile_options = {"num_warps": tile["num_warps"], "num_stages": tile["num_stages"], "enable_fp_fusion": True}
        with torch.cuda.device_of(self.inputs.query):  # Triton launches on this device
            kernel[grid](*[known[name] for name in kernel.arg_names], **compile_options)

    def chunks(self, programs: int) -> int:
        """Return into how many chunks to split the batch: `programs` programs per chunk then fill the device twice."""
        return max(1, min(self.B, triton.cdiv(2 * multiprocessors(self.inputs.query.device), programs)))

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return self.inputs.query.new_empty(shape, dtype=dtype)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Compute the output `(B, T_q, H, d_h)` and `LSE` of `forward_kernel`, `(B, H, T_q)`."""
        out = by_token(self.inputs.query)
        lse = self.empty(*self.inputs.query.shape[:3], dtype=torch.float32)
        tile = self.tile("forward")
        grid = (self.B, triton.cdiv(self.T_q, tile["BLOCK_M"]), self.H)
        self.run(forward_kernel, grid, tile, OUT=out, LSE=lse)
        return out, lse

    def backward(self, out: Tensor, lse: Tensor, d_out: Tensor, wanted: Inputs) -> Inputs:
        """Compute the gradients of the inputs that are true in `wanted`, and always of query, key and value.

        `out` and `d_out` are `(B, T_q, H, d_h)`, `lse` is `(B, H, T_q)`.
        """
        d_out = d_out.contiguous()
        delta = torch.empty_like(lse)
        rows = {"LSE": lse, "D_OUT": d_out, "DELTA": delta}
        if self.inputs.starts is not None:
            rows["LENGTHS"] = self.inputs.starts.diff()
        d_query, d_pos_q, d_relative, d_theta, d_segment = self.query_gradient(out, rows, wanted)
        d_key, d_value, d_pos_k = self.key_gradient(rows, wanted)
        d_bias = self.bias_gradient(rows) if wanted.bias else None
        return Inputs(d_query, d_key, d_value, d_bias, d_pos_q, d_pos_k, d_relative, d_theta, d_segment)

    def query_gradient(self, out: Tensor, rows: dict, wanted: Inputs) -> tuple[Tensor | None, ...]:
        tile = self.tile("query_gradient")
        groups = triton.cdiv(self.T_q, tile["BLOCK_M"])
        chunks = self.B
        if wanted.relative:  # each program writes a vector of all distances, so run only enough to fill the GPU twice
            groups = min(groups, triton.cdiv(2 * multiprocessors(out.device), self.H))
        if wanted.pos_q or wanted.relative or wanted.theta:
            chunks = self.chunks(groups * self.H)
        d_query = torch.empty_like(out)
        d_pos_q = self.partial(chunks, self.inputs.pos_q) if wanted.pos_q else None
        d_relative = d_theta = None
        d_segment = by_token(rows["LSE"]) if wanted.segment else None
        if wanted.relative:
            d_relative = out.new_zeros((chunks * groups, *self.inputs.relative.shape), dtype=torch.float32)
        if wanted.theta:
            d_theta = self.empty(chunks * groups, self.H, dtype=torch.float32)
        self.run(
            query_gradient_kernel,
            (chunks, groups, self.H),
            tile,
            **rows,
            OUT=out,
            D_Q=d_query,
            D_POS_Q=d_pos_q,
            D_RELATIVE=d_relative,
            D_THETA=d_theta,
            D_SEGMENT=d_segment,
        )
        return (
            d_query.transpose(1, 2),
            total(d_pos_q, self.inputs.pos_q),
            total(d_relative, self.inputs.relative),
            total(d_theta, self.inputs.theta),
            self.segment_gradient(d_segment) if wanted.segment else None,
        )

    def segment_gradient(self, by_query: Tensor) -> Tensor:
        """Compute the gradient of `segment` from each row's sum over the keys of segment 1; that over all keys is 0."""
        second = self.inputs.segments[..., None] != 0  # (B, T, 1)
        sums = [by_query.masked_fill(other, 0).sum((0, 1)) for other in (second, ~second)]  # autocast keeps float32
        second_keys = torch.stack(sums, dim=-1)
        return torch.stack([-second_keys, second_keys], dim=-1).to(self.inputs.segment.dtype)

    def key_gradient(self, rows: dict, wanted: Inputs) -> tuple[Tensor | None, ...]:
        tile = self.tile("key_gradient")
        blocks = triton.cdiv(self.T_k, tile["BLOCK_N"])
        chunks = self.chunks(blocks * self.H) if wanted.pos_k else self.B
        d_key, d_value = (by_token(self.inputs.key) for _ in range(2))
        d_pos_k = self.partial(chunks, self.inputs.pos_k) if wanted.pos_k else None
        grid = (chunks, blocks, self.H)
        self.run(key_gradient_kernel, grid, tile, **rows, D_K=d_key, D_V=d_value, D_POS_K=d_pos_k)
        return d_key.transpose(1, 2), d_value.transpose(1, 2), total(d_pos_k, self.inputs.pos_k)

    def bias_gradient(self, rows: dict) -> Tensor:
        bias = self.inputs.bias
        tile = self.tile("bias_gradient")
        tiles = triton.cdiv(self.T_q, tile["BLOCK_M"]) * triton.cdiv(self.T_k, tile["BLOCK_N"])
        chunks = self.chunks(tiles * self.H) if len(bias) == 1 else self.B
        if self.inputs.padding is not None and self.inputs.starts is None and len(bias) == 1:
            rows = {**rows, **self.by_length()}
        row = triton.cdiv(self.T_k, ALIGNED_ROW.value) * ALIGNED_ROW.value
        shape = (chunks, self.H, self.T_q, self.T_k)
        dtype = bias.dtype if shape == bias.shape else torch.float32  # rounded only after the sum
        d_bias = self.empty(*shape[:3], row, dtype=dtype)
        self.run(bias_gradient_kernel, (chunks * tiles, self.H), tile, **rows, D_BIAS=d_bias, d_bias_stride=row)
        return d_bias[..., : self.T_k].sum_to_size(bias.shape).to(bias.dtype)

    def by_length(self) -> dict[str, Tensor]:
        """Return the lengths up to the last key that is not padding, descending, and their sequences, `(B,)` each."""
        ends = torch.arange(1, self.T_k + 1, dtype=torch.int32, device=self.inputs.padding.device)
        lengths, order = ends.masked_fill(self.inputs.padding.bool(), 0).amax(1).sort(descending=True, stable=True)
        return {"LENGTHS": lengths, "ORDER": order}

    def partial(self, chunks: int, part: Tensor) -> Tensor:
        """Allocate the gradient of `part` for each chunk of the batch; if there is only one, the kernel rounds it."""
        return self.empty(chunks, *part.shape, dtype=part.dtype if chunks == 1 else torch.float32)


def by_token(tensor: Tensor) -> Tensor:
    """Allocate `(B, T, H, ...)` for a view `(B, H, T, ...)`."""
    return torch.empty_like(tensor.transpose(1, 2), memory_format=torch.contiguous_format)


def total(partial: Tensor | None, part: Tensor | None) -> Tensor | None:
    """Sum the partial gradients of `part`, in its type."""
    if partial is None:
        return None
    return partial[0] if len(partial) == 1 and partial.dtype == part.dtype else partial.sum(0).to(part.dtype)


def with_aligned_rows(bias: Tensor) -> Tensor:
    """Return `bias`, copied if its rows are not aligned: the kernels would read it element by element."""
    length, (*_, row, column) = bias.shape[-1], bias.stride()
    if column == 1 and row >= length and row % ALIGNED_ROW.value == bias.storage_offset() % ALIGNED_ROW.value == 0:
        return bias
    return F.pad(bias.contiguous(), (0, -length % ALIGNED_ROW.value))[..., :length]


def block(width: int) -> int:
    """Return the width of a tile for rows of `width` numbers: a power of two, and enough for a matrix product."""
    return max(16, 1 << (width - 1).bit_length())


@functools.lru_cache
def multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
