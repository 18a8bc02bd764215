"""Triton kernels of attention with a bias that the batch shares, one file a kernel; docs/kernels.md has the reasoning.

Common to all: a program walks over tiles of `BLOCK_M` queries by `BLOCK_N` keys. Logits are in base 2, since `exp2` is
the instruction that the hardware has: a logit `s` is kept as `s log2(e)`, and the saved log-sum-exp likewise. Products
have operands of the input's type and float32 sums; all else is float32. Nothing is summed with atomics.
"""
