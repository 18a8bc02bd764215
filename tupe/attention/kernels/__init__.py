"""Triton kernels of attention with a bias that the batch shares, one file a kernel; see docs/dev/kernels.md.

Common to all: a program walks over tiles of `BLOCK_M` queries by `BLOCK_N` keys. Exponents are in base 2, since `exp2`
is the instruction that the hardware has: a logit is multiplied by `log2(e)` where its row's maximum or log-sum-exp,
kept in base 2, is subtracted. Products have operands of the input's type and float32 sums; all else is float32. Nothing
is summed with atomics.
"""
