"""Locate the tokens of a sequence in a padded or packed batch, and the end of its keys."""

import triton
import triton.language as tl


@triton.jit
def rows_of(STARTS, b, T_q, T_k):
    """Return sequence `b`'s index for batch strides, its first query and key, and its numbers of queries and keys.

    `STARTS` points to the first token of each packed sequence, then `N`; it is None for a padded batch.
    """
    if STARTS is None:
        place, first_query, first_key, queries, keys = b, b * T_q, b * T_k, T_q, T_k
    else:
        start = tl.load(STARTS + b)
        keys = tl.load(STARTS + b + 1) - start
        place = start.to(tl.int64)
        first_query, first_key, queries = place, place, keys
    return place, first_query, first_key, queries, keys


@triton.jit
def end_of_keys(padding, keys):
    """Return the index after the last key that is not padding, or 1 if all are: one tile must write the zeros."""
    end = keys
    if padding is not None:
        last = tl.full((), 0, tl.int32)
        for first in range(0, keys, 1024):
            key = first + tl.arange(0, 1024)
            real = tl.load(padding + key, mask=key < keys, other=1) == 0
            last = tl.maximum(last, tl.max(tl.where(real, key + 1, 0), 0))
        end = tl.maximum(last, 1)
    return end


@triton.jit
def share_of_batch(LENGTHS, first, B, chunk, chunks):
    """Return the range of sequences of `chunk`, one of `chunks` that divide the sequences longer than `first`.

    `LENGTHS` `(B,)` is None if all are longer. Unless it is in descending order, a range can include shorter sequences.
    """
    count = B
    if LENGTHS is not None:
        count = tl.full((), 0, tl.int32)
        for some in range(0, B, 128):
            b = some + tl.arange(0, 128)
            reaches = tl.load(LENGTHS + b, mask=b < B, other=0) > first
            count = tl.maximum(count, tl.max(tl.where(reaches, b + 1, 0), 0))
    sequences = tl.cdiv(count, chunks)
    return chunk * sequences, tl.minimum(count, (chunk + 1) * sequences)
