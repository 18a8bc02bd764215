"""Attention with a bias on its logits, for any PyTorch code; nothing here knows fairseq."""

from tupe.attention.biased import BACKENDS, biased_attention
from tupe.attention.packed import packed_attention
from tupe.attention.triton_support import prefers_structured, takes_packed

__all__ = ["BACKENDS", "biased_attention", "packed_attention", "prefers_structured", "takes_packed"]
