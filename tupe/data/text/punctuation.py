"""Normalises punctuation as Moses does: quotes, dashes, ellipses and the spaces around them become plain ASCII."""

from __future__ import annotations

from typing import Callable


def normaliser(language: str) -> Callable[[str], str]:
    """Moses' normaliser for a language (sacremoses)."""
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer(lang=language).normalize
