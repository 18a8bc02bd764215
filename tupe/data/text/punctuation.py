"""Normalise punctuation as Moses does: quotes, dashes, ellipses and the spaces around them become plain ASCII."""

import re
from collections.abc import Callable


def normaliser(language: str) -> Callable[[str], str]:
    """Return Moses' normaliser for a language (sacremoses); lines of ASCII skip its rules for other characters."""
    from sacremoses import MosesPunctNormalizer

    rules = [(re.compile(pattern), by) for pattern, by in MosesPunctNormalizer(lang=language).substitutions]
    of_ascii = [(pattern, by) for pattern, by in rules if pattern.pattern.isascii()]

    def normalise(line: str) -> str:
        for pattern, by in of_ascii if line.isascii() else rules:
            line = pattern.sub(by, line)
        return line.strip()

    return normalise
