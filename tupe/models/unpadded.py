"""Groups of sequences that attend at one length. A padded batch is one; a batch without padding `(N, d)` is several."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

#: Cost of one more group on the CPU, as a number of logits in all heads. A call of `reference`, forward and backward,
#: took 0.35 ms more than its logits, as long as 1,000 logits in each of twelve heads take.
_CALL = 12_000


class Group(NamedTuple):
    """Sequences that attend at one length: a padded batch `(B, T, d)`, or `n` tokens without padding `(n, d)`.

    padding: `(b, t)`, true at padding; `None` where there is none.
    rows: `(b,)`, the group's rows of the batch; `None` for a padded batch, as are `length` and `places`.
    length: `t`, the length of the longest sequence.
    places: `(n,)`, rising: the index of each token among the `b * t` slots.
    cu_seqlens: `(b + 1,)`, for `packed_attention`: the index of each sequence's first token, then `n`. With it,
        `padding` is `(n,)`.
    """

    padding: Tensor | None
    rows: Tensor | None = None
    length: int | None = None
    places: Tensor | None = None
    cu_seqlens: Tensor | None = None

    @classmethod
    def of(cls, rows: Tensor, padding: Tensor, num_tokens: int | None = None) -> Group:
        """Make a group of the `rows` of a batch, with `padding` `(b, t)`; `num_tokens` saves a wait for the GPU."""
        flat = padding.flatten()
        if num_tokens is None:
            places = flat.logical_not().nonzero().flatten()
        else:
            places = flat.to(torch.uint8).argsort(stable=True)[:num_tokens]
        return cls(None if len(places) == len(flat) else padding, rows, padding.shape[1], places)

    def of_tokens(self, by_position: Tensor | None) -> Tensor | None:
        """Turn a rotation by positions `(2, t, r)` into one by tokens `(2, n, r)`; leave it for a padded batch."""
        if by_position is None or self.places is None:
            return by_position
        return by_position[:, self.places % self.length]

    def pad(self, x: Tensor) -> Tensor:
        """Turn `(n, ...)` into `(b, t, ...)`, zero at padding; leave a padded batch as it is."""
        if self.places is None:
            return x
        if self.padding is not None:
            x = x.new_zeros(len(self.rows) * self.length, *x.shape[1:]).index_put((self.places,), x)
        return x.unflatten(0, (len(self.rows), self.length))

    def unpad(self, x: Tensor) -> Tensor:
        """Turn `(b, t, d)` into `(n, d)`; leave a padded batch as it is."""
        if self.places is None:
            return x
        x = x.flatten(0, 1)
        return x if self.padding is None else x.index_select(0, self.places)


def split(x: Tensor, groups: tuple[Group, ...]) -> tuple[Tensor, ...]:
    """Split `x` `(N, ...)` into the tokens of each group, `(n, ...)`."""
    return (x,) if len(groups) == 1 else x.split([len(group.places) for group in groups])


class Unpadded(NamedTuple):
    """Places of the tokens of a padded batch `(B, T)`, for layers that compute them without padding `(N, d)`.

    groups: the groups, in the order of the tokens.
    places: `(N,)`, the index of each token among the `B * T` slots.
    """

    groups: tuple[Group, ...]
    places: Tensor

    @classmethod
    def of(cls, padding: Tensor, num_tokens: int | None, num_heads: int | None) -> Unpadded:
        """Group the sequences of a batch by their lengths.

        Args:
            padding: `(B, T)`, true at padding, which is on the right.
            num_tokens: `N`, if known, which saves a wait for the device.
            num_heads: heads of the attention, by which more groups pay or not; `None` for one group.
        """
        batch, length = padding.shape
        if num_heads is None:
            whole = Group.of(torch.arange(batch, device=padding.device), padding, num_tokens)
            return cls((whole,), whole.places)
        ends = torch.arange(1, length + 1).masked_fill(padding, 0).amax(1)  # (B,): length up to the last token
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
        """Make one group for `packed_attention`, longest sequences first, with the arguments of `of`.

        Padding before a sequence's last token counts as a token, as collaters count it; `Group.padding` hides it.
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
        """Turn `(B, T)` into `(N,)`."""
        return x.flatten().index_select(0, self.places)

    def pad(self, x: Tensor, batch: int, length: int) -> Tensor:
        """Turn `(N, ...)` into `(B, T, ...)`, zero at padding."""
        return x.new_zeros(batch * length, *x.shape[1:]).index_put((self.places,), x).unflatten(0, (batch, length))


def group_sizes(lengths: list[int], call: int) -> list[int]:
    """Choose the sizes of groups so that the sum of `call + size * longest ** 2` over the groups is least.

    Args:
        lengths: lengths of the sequences, falling.
        call: cost of one more group, in logits.
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
