"""Attention with a bias on its logits, for any PyTorch code; nothing here knows fairseq."""

from tupe.attention.biased import BACKENDS, biased_attention
from tupe.attention.structured import StructuredBias

__all__ = ["BACKENDS", "StructuredBias", "biased_attention"]
