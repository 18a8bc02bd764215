"""Normalise punctuation as Moses does: quotes, dashes, ellipses and the spaces around them become plain ASCII."""

import re
from collections.abc import Callable

# Parts of a pattern that match no character of their own: sets, classes, groups, repetitions.
_SYNTAX = re.compile(r"\[[^]]*\]|\\[a-zA-Z]|(?<!\\)[()+\\ ]|\\(?=\W)")
_CHOICE = re.compile(r"(?<!\\)[|*?{.^$]")
_SPACES, _RETURN = " +", r"\r"


def normaliser(language: str) -> Callable[[str], str]:
    """Return Moses' normaliser for a language (sacremoses), made faster: it skips rules that cannot change a line."""
    from sacremoses import MosesPunctNormalizer

    moses = MosesPunctNormalizer(lang=language)
    rules = [(_needed(pattern), re.compile(pattern), by) for pattern, by in moses.substitutions]

    def normalise(line: str) -> str:
        for needed, pattern, by in rules:
            if needed in line:
                line = pattern.sub(by, line)
        return line.strip()

    return normalise


def _needed(pattern: str) -> str:
    """Return a character without which a rule cannot change a line; "" if the pattern shows none."""
    if pattern in (_SPACES, _RETURN):
        return {_SPACES: "  ", _RETURN: "\r"}[pattern]
    without = _SYNTAX.sub("", pattern)
    return "" if _CHOICE.search(re.sub(r"\[[^]]*\]|\\.", "", pattern)) else max(without, default="")
