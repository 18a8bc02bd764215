"""Groups of sequences that attend at one length: a padded batch is one, tokens side by side `(N, d)` are several."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

#: What one more group costs on the CPU, in logits of all heads: a call of `reference`, forward and backward, was seen
#: to take 0.35 ms more than its logits, as long as 1,000 logits of each of twelve heads.
_CALL = 12_000


class Group(NamedTuple):
    """Sequences that attend at one length: a padded batch `(B, T, d)`, or some that lie next to each other `(n, d)`.

    padding: true at padding, `(b, t)`; `None` where there is none.
    rows: of the batch, `(b,)`; `None` for all of a padded batch, as the two that follow.
    length: of the longest, `t`.
    places: of the tokens in `b * t` slots, `(n,)`; rising.
    cu_seqlens: for attention without padding, `(b + 1,)`: where each sequence begins among the tokens, and `n`;
        `padding` is then of the tokens, `(n,)`.
    """

    padding: Tensor | None
    rows: Tensor | None = None
    length: int | None = None
    places: Tensor | None = None
    cu_seqlens: Tensor | None = None

    @classmethod
    def of(cls, rows: Tensor, padding: Tensor, num_tokens: int | None = None) -> Group:
        """The `rows` of a batch, whose `padding` is `(b, t)`; `num_tokens`, if given, spares waiting for a GPU."""
        flat = padding.flatten()
        if num_tokens is None:
            places = flat.logical_not().nonzero().flatten()
        else:
            places = flat.to(torch.uint8).argsort(stable=True)[:num_tokens]
        return cls(None if len(places) == len(flat) else padding, rows, padding.shape[1], places)

    def of_tokens(self, by_position: Tensor | None) -> Tensor | None:
        """`(2, t, r)` of the positions to `(2, n, r)` of the tokens; a padded batch has all positions."""
        if by_position is None or self.places is None:
            return by_position
        return by_position[:, self.places % self.length]

    def pad(self, x: Tensor) -> Tensor:
        """`(n, d)` to `(b, t, d)`, zero at padding; a padded batch as it is."""
        if self.places is None:
            return x
        if self.padding is not None:
            x = x.new_zeros(len(self.rows) * self.length, x.shape[-1]).index_put((self.places,), x)
        return x.unflatten(0, (len(self.rows), self.length))

    def unpad(self, x: Tensor) -> Tensor:
        """`(b, t, d)` to `(n, d)`; a padded batch as it is."""
        if self.places is None:
            return x
        x = x.flatten(0, 1)
        return x if self.padding is None else x.index_select(0, self.places)


def split(x: Tensor, groups: tuple[Group, ...]) -> tuple[Tensor, ...]:
    """The rows of `x` that belong to each of `groups`."""
    return (x,) if len(groups) == 1 else x.split([len(group.places) for group in groups])


class Unpadded(NamedTuple):
    """Where the tokens of a batch are.

    groups: in the order of the tokens.
    places: of the tokens in `B * T` slots, `(N,)`.
    """

    groups: tuple[Group, ...]
    places: Tensor

    @classmethod
    def of(cls, padding: Tensor, num_tokens: int | None, num_heads: int | None) -> Unpadded:
        """The tokens of a batch with `padding` `(B, T)`, true at padding, which is on the right.

        Args:
            num_tokens: `N`, where asking the device is to be spared.
            num_heads: of attention that one group more makes cheaper by fewer logits; `None` for one group.
        """
        batch, length = padding.shape
        if num_heads is None:
            whole = Group.of(torch.arange(batch, device=padding.device), padding, num_tokens)
            return cls((whole,), whole.places)
        ends = torch.arange(1, length + 1).masked_fill(padding, 0).amax(1)  # (B,): of the last token
        lengths, order = ends.clamp(min=1).sort(descending=True, stable=True)
        groups, places, first = [], [], 0
        for size in group_sizes(lengths.tolist(), _CALL // num_heads):
            rows, longest = order[first : first + size], int(lengths[first])
            groups.append(Group.of(rows, padding[rows, :longest]))
            row, column = groups[-1].places // longest, groups[-1].places % longest
            places.append(rows[row] * length + column)
            first += size
        return cls(tuple(groups), torch.cat(places))

    @classmethod
    def packed(cls, padding: Tensor, num_tokens: int | None) -> Unpadded:
        """One group for attention without padding, in order of falling length; `num_tokens` as in `of`.

        Padding before a sequence's last token is a token here, as collaters count it, and hidden by `Group.padding`.
        """
        length = padding.shape[1]
        places = torch.arange(length, device=padding.device)
        lengths, rows = (places + 1).masked_fill(padding, 0).amax(1).sort(descending=True, stable=True)
        group = Group.of(rows, places >= lengths[:, None], num_tokens)
        starts = F.pad(lengths.cumsum(0), (1, 0)).clamp(max=len(group.places)).to(torch.int32)
        # no token is beyond the last sequence, whatever `num_tokens` says; `starts[-1] = ...` would wait for a GPU
        starts[-1:].fill_(len(group.places))
        group = group._replace(padding=padding[rows].flatten()[group.places], cu_seqlens=starts)
        return cls((group,), rows[group.places // length] * length + group.places % length)

    def unpad(self, x: Tensor) -> Tensor:
        """`(B, T)` to `(N,)`."""
        return x.flatten().index_select(0, self.places)

    def pad(self, x: Tensor, batch: int, length: int) -> Tensor:
        """`(N, ...)` to `(B, T, ...)`, zero at padding."""
        return x.new_zeros(batch * length, *x.shape[1:]).index_put((self.places,), x).unflatten(0, (batch, length))


def group_sizes(lengths: list[int], call: int) -> list[int]:
    """How many sequences to attend together, so that the sum of `call + size * longest ** 2` is least.

    Args:
        lengths: of the sequences, falling.
        call: what a group costs, in logits.
    """
    runs = [(length, len(list(some))) for length, some in itertools.groupby(lengths)]
    best = [(0, 0, 0)]  # cost of the first runs, where their last group begins, and its size
    for end in range(1, len(runs) + 1):
        size, choices = 0, []
        for begin in range(end - 1, -1, -1):
            length, count = runs[begin]
            size += count
            choices.append((best[begin][0] + call + size * length**2, begin, size))
        best.append(min(choices))
    sizes, end = [], len(runs)
    while end:
        _, end, size = best[end]
        sizes.append(size)
    return sizes[::-1]
