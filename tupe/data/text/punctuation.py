"""Normalises punctuation as Moses does: quotes, dashes, ellipses and the spaces around them become plain ASCII."""

import re
from collections.abc import Callable

# What is not there to be matched itself: sets, classes, groups, repetitions.
_SYNTAX = re.compile(r"\[[^]]*\]|\\[a-zA-Z]|(?<!\\)[()+\\ ]|\\(?=\W)")
_CHOICE = re.compile(r"(?<!\\)[|*?{.^$]")
_SPACES, _RETURN = " +", r"\r"


def normaliser(language: str) -> Callable[[str], str]:
    """Moses' normaliser for a language (sacremoses), whose rules are only tried on a line that has what they change."""
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
    """Return a character that a line must hold for a rule to change it, "" if none is seen."""
    if pattern in (_SPACES, _RETURN):
        return {_SPACES: "  ", _RETURN: "\r"}[pattern]
    without = _SYNTAX.sub("", pattern)
    return "" if _CHOICE.search(re.sub(r"\[[^]]*\]|\\.", "", pattern)) else max(without, default="")
