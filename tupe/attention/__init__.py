"""Attention with a bias on its logits, for any PyTorch code, without fairseq."""

from tupe.attention.biased import BACKENDS, biased_attention, prefers_structured
from tupe.attention.packed import packed_attention, takes_packed

__all__ = ["BACKENDS", "biased_attention", "packed_attention", "prefers_structured", "takes_packed"]
