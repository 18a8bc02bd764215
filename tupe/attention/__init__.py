"""Attention with a bias on its logits, for any PyTorch code; nothing here knows fairseq."""

from tupe.attention.biased import BACKENDS, biased_attention
from tupe.attention.triton_support import prefers_parts

__all__ = ["BACKENDS", "biased_attention", "prefers_parts"]
