"""Repairs broken UTF-8 and removes characters that are no text."""

import re
import unicodedata

_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile("[\r\n]+")
# Joiners are part of words in Persian and the Indic scripts.
_KEPT = {"\u200c", "\u200d"}


def repair(line: str) -> str:
    """Remove control, private, unassigned and formatting characters; white space becomes single spaces.

    A byte that was no UTF-8 (a surrogate escape of Python's) becomes its character of Windows-1252, which repairs text
    of mixed encodings. A byte without such a character is removed, and so is U+FFFD, which earlier repairs leave.
    """
    line = " ".join(line.split())
    if line.isprintable() and "\ufffd" not in line:
        return line
    return " ".join("".join(map(repaired, line)).split())


def mark(line: str) -> str:
    """Put U+FFFD for every byte that was no UTF-8, so that the line can be written; white space as in `repair`."""
    return _SURROGATE.sub("\ufffd", " ".join(line.split()))


def keep(line: str) -> str:
    """Put U+FFFD for every byte that was no UTF-8 and spaces for breaks; other white space within stays."""
    return _SURROGATE.sub("\ufffd", _BREAK.sub(" ", line)).strip()


def repaired(character: str) -> str:
    """Return what `repair` makes of a character that is no white space: one character, or none."""
    if "\udc80" <= character <= "\udcff":
        character = bytes([ord(character) - 0xDC00]).decode("cp1252", errors="ignore")
    is_text = character in _KEPT or not (character in "\ufffd" or unicodedata.category(character).startswith("C"))
    return character if is_text else ""
