"""Triton kernels of attention with a bias that the batch shares, one file per kernel; see docs/dev/kernels.md.

In every kernel, a program walks over tiles of `BLOCK_M` queries by `BLOCK_N` keys. Exponents are in base 2, because the
hardware has an instruction for `exp2`: a logit is multiplied by `log2(e)` when the maximum or log-sum-exp of its row,
kept in base 2, is subtracted. Products have operands of the input's type and float32 sums; everything else is float32.
Nothing is summed with atomics.
"""
