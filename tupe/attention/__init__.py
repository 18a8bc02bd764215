"""Attention with a bias on its logits, for any PyTorch code; nothing here knows fairseq."""

from tupe.attention.biased import BACKENDS, biased_attention

__all__ = ["BACKENDS", "biased_attention"]
