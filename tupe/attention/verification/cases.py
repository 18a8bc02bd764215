"""Cases to check the kernels with: inputs, the kernels' output, and the same equation in float64."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.attention.reference import reference
from tupe.position.structured import StructuredBias

_LEVELS = 1 << 16  # of dropout's probability, as in kernels/launch.py


@dataclass(frozen=True)
class Case:
    """One attention of two sequences and two heads.

    kind: `dense` or `structured`, the bias. `structured` has factors, values by distance, a reset and segments.
    packed: whether the sequences are packed instead of padded.
    length: `T` of the longer sequence; the other one has a third.
    whole: whether inputs are whole numbers; the output and the gradient of the values then have no rounding error.
    """

    kind: str
    packed: bool
    dtype: torch.dtype
    length: int
    dropout: float
    width: int = 64
    whole: bool = False

    def __str__(self) -> str:
        parts = [f"{self.length} tokens"]
        parts += ["side by side"] * self.packed + [f"{self.kind} bias"] + ["dropout"] * (self.dropout > 0)
        return ", ".join(parts + ["whole numbers"] * self.whole)

    @property
    def lengths(self) -> tuple[int, int]:
        return self.length, self.length // 2 if self.whole else max(1, self.length // 3)

    def leaves(self, device: torch.device) -> dict[str, Tensor]:
        """Return the inputs with gradients by name, in float64 but exact in `dtype`: `query` `(N, H, d_h)`, ..."""
        generator = torch.Generator().manual_seed(self.length)
        tokens, heads, width, length = sum(self.lengths), 2, self.width, self.length

        def normal(*shape: int, spread: float = 1.0) -> Tensor:
            numbers = torch.randn(*shape, generator=generator, dtype=torch.float64) * spread
            return numbers.to(self.dtype).double().to(device)

        shapes = {"bias": (heads, length, length)}
        if self.kind == "structured":
            factor, distances = (heads, length, width), (heads, 2 * length - 1)
            shapes = {"pos_q": factor, "pos_k": factor, "relative": distances}
            shapes |= {"theta": (2, heads), "segment": (heads, 2, 2)}
        if not self.whole:
            words = {name: normal(tokens, heads, width) for name in ("query", "key", "value")}
            spreads = {"pos_q": width**-0.25, "pos_k": width**-0.25}  # the product of these has a spread of 1
            return words | {name: normal(*shape, spread=spreads.get(name, 1.0)) for name, shape in shapes.items()}
        # Tokens whose places are equal modulo `period` have equal codes and attend only to each other, equally.
        period = self.length // 8
        codes = torch.randint(0, 2, (period, heads, width), generator=generator, dtype=torch.float64) * 2 - 1
        queries = codes.repeat(tokens // period, 1, 1).to(device) * 64 * width**-0.5
        values = torch.randint(-8, 9, (tokens, heads, width), generator=generator).double().to(device)
        zeros = {name: torch.zeros(*shape, dtype=torch.float64, device=device) for name, shape in shapes.items()}
        return {"query": queries, "key": queries.clone(), "value": values, **zeros}

    def d_out(self, device: torch.device) -> Tensor:
        """Return the gradient of the output, `(N, H, d_h)`, of a size that makes the gradients about 1."""
        generator = torch.Generator().manual_seed(self.length + 1)
        shape = (sum(self.lengths), 2, self.width)
        if self.whole:
            return torch.randint(-4, 5, shape, generator=generator).double().to(device)
        numbers = torch.randn(*shape, generator=generator, dtype=torch.float64) * self.length**0.5
        return numbers.to(self.dtype).double().to(device)

    def kernels(self, leaves: dict[str, Tensor], seed: int) -> Tensor:
        """Return the output `(N, H, d_h)` by the Triton kernels; `seed` is PyTorch's, for dropout."""
        from tupe.attention.triton_attention import triton_attention

        query, key, value = (leaves[name] for name in ("query", "key", "value"))
        second = self._second_segment(query.device)
        places = self._places(query.device)
        torch.manual_seed(seed)
        if self.packed:
            starts = F.pad(torch.tensor(self.lengths, device=query.device).cumsum(0), (1, 0))
            query, key, value = (x.transpose(0, 1)[None] for x in (query, key, value))
            bias = self._bias(leaves, second.flatten()[places][None])
            out = triton_attention(
                query, key, value, bias, None, self.scale, self.dropout, cu_seqlens=starts, max_length=self.length
            )
            return out[0].transpose(0, 1)
        query, key, value = (self._pad(x, places) for x in (query, key, value))
        bias = self._bias(leaves, second)
        out = triton_attention(query, key, value, bias, self._padding(places), self.scale, self.dropout)
        return out.transpose(1, 2).flatten(0, 1)[places]

    def exact(self, leaves: dict[str, Tensor], seed: int) -> Tensor:
        """Return the output `(N, H, d_h)` by the equation in float64; the same weights are dropped."""
        places = self._places(leaves["query"].device)
        query, key, value = (self._pad(leaves[name], places) for name in ("query", "key", "value"))
        bias = self._bias(leaves, self._second_segment(query.device))
        bias = bias.dense(self.length) if isinstance(bias, StructuredBias) else bias
        if self.dropout == 0:
            out = reference(query, key, value, bias, self._padding(places), self.scale, 0.0)
        else:
            # The weights of all values, one hot: dropout is applied to them, not to the output.
            hot = torch.eye(self.length, dtype=torch.float64, device=query.device).expand(*key.shape[:2], -1, -1)
            weights = reference(query, key, hot, bias, self._padding(places), self.scale, 0.0)
            out = (weights * self._kept(seed, query.device)) @ value
        return out.transpose(1, 2).flatten(0, 1)[places]

    @property
    def scale(self) -> float:
        return (2 * self.width) ** -0.5 if not self.whole else self.width**-0.5

    def _bias(self, leaves: dict[str, Tensor], segments: Tensor) -> Tensor | StructuredBias:
        if self.kind == "dense":
            return leaves["bias"]
        parts = [leaves[name] for name in ("pos_q", "pos_k", "relative", "theta", "segment")]
        return StructuredBias._make([*parts, segments])

    def _second_segment(self, device: torch.device) -> Tensor:
        """Return a mask of the second half of each sequence, `(B, T)`."""
        ends = torch.tensor(self.lengths, device=device)[:, None]
        return torch.arange(self.length, device=device) >= ends // 2

    def _places(self, device: torch.device) -> Tensor:
        """Return the places of the tokens among `B * T`, `(N,)`."""
        ends = torch.tensor(self.lengths, device=device)[:, None]
        return (torch.arange(self.length, device=device) < ends).flatten().nonzero().flatten()

    def _padding(self, places: Tensor) -> Tensor:
        mask = torch.ones(2 * self.length, dtype=torch.bool, device=places.device)
        return mask.index_fill(0, places, False).view(2, self.length)

    def _pad(self, x: Tensor, places: Tensor) -> Tensor:
        """Turn `(N, H, d)` into `(B, H, T, d)`, zero at padding."""
        padded = x.new_zeros(2 * self.length, *x.shape[1:]).index_put((places,), x)
        return padded.unflatten(0, (2, self.length)).transpose(1, 2)

    def _kept(self, seed: int, device: torch.device) -> Tensor:
        """Return dropout's factor for every weight, `(B, H, T, T)`: 0, or the inverse of the probability to keep it."""
        torch.manual_seed(seed)
        number = torch.randint(2**63 - 1, (1,), device=device)
        dropped = round(self.dropout * _LEVELS)
        return (random_bits(number, 4, self.length) >= dropped).double().unflatten(0, (2, 2)) * (
            _LEVELS / (_LEVELS - dropped)
        )


def random_bits(seed: Tensor, matrices: int, length: int) -> Tensor:
    """Return the 16 random bits of every weight, `(matrices, T, T)` int64, as `kernels/dropout.py` has them.

    Philox2x32 with 7 rounds of (seed, row, column) makes 64 bits for the rows `i`, `i + 8` and columns `j`, `j + 8`.
    """
    index = torch.arange(length, device=seed.device)
    pair = (index >> 4) * 8 + (index & 7)
    matrix = torch.arange(matrices, device=seed.device)[:, None, None]
    first = (matrix * (-(-length // 16) * 8) + pair[:, None]).expand(-1, -1, length)
    second = (pair ^ (seed >> 32)).expand_as(first)
    key = seed & 0xFFFFFFFF
    for _ in range(7):
        high, low = product_of_words(first, 0xD256D193)
        first, second = high ^ key ^ second, low
        key = (key + 0x9E3779B9) & 0xFFFFFFFF
    word = torch.where((index & 8 == 0)[:, None], first, second)
    return torch.where(index & 8 == 0, word & 0xFFFF, word >> 16)


def product_of_words(a: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """Return the upper and lower 32 bits of the product of two numbers below 2^32."""
    upper, lower = (a >> 16) * b, (a & 0xFFFF) * b
    return (upper + (lower >> 16)) >> 16, ((upper << 16) + lower) & 0xFFFFFFFF


def with_gradients(
    attend: Callable[[dict[str, Tensor]], Tensor], leaves: dict[str, Tensor], d_out: Tensor
) -> dict[str, Tensor]:
    """Return `{"output": ..., name: gradient of that leaf}`."""
    leaves = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}
    out = attend(leaves)
    gradients = torch.autograd.grad(out, [*leaves.values()], d_out)
    return {"output": out.detach()} | dict(zip(leaves, gradients))
