"""Tokenise as Moses does (sacremoses)."""

import re
import string
from collections.abc import Callable

from tupe.data.text.memo import Memo
from tupe.data.text.special_tokens import SPECIAL_TOKENS

_SPECIAL = re.compile(f"({'|'.join(map(re.escape, SPECIAL_TOKENS))})")
_ALWAYS_APART = sorted(set(string.punctuation) - set(".,-'`"))
_APOSTROPHES = re.compile(r"' +'")
_LONGEST_KEPT = 64


def tokeniser(language: str) -> Callable[[str], str]:
    """Return a function from a line to its tokens, separated by spaces; special tokens stay whole."""
    tokenise = by_words(language)

    def tokenise_around_special_tokens(line: str) -> str:
        if "<" not in line:
            return tokenise(line)
        parts = (part if part in SPECIAL_TOKENS else tokenise(part) for part in _SPECIAL.split(line))
        return " ".join(part for part in parts if part)

    return tokenise_around_special_tokens


def by_words(language: str) -> Callable[[str], str]:
    """Return Moses' tokeniser, many times faster: it is called once for each word, and its output is kept.

    Moses' first rule puts spaces around most punctuation, and so does this function. Then a word is what stands between
    two spaces. The other rules look beyond a word in few places: whether it is the first of the line, whether it is the
    last, and after a full stop, whether a small letter, a digit or something else follows. The calls have that too. A
    line where an apostrophe meets an apostrophe, or with characters that are not printed, is given to Moses whole.
    """
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    small_letters = frozenset(moses.IsLower)

    prefixes = frozenset(moses.NONBREAKING_PREFIXES)

    def ask(place: tuple[str, bool, str]) -> str:
        word, first, follows = place
        if plain(word):
            return word
        if word[-1] == "," and plain(word[:-1]) and word[-2] not in "-0123456789":
            return f"{word[:-1]} ,"
        if word[-1] == "." and plain(word[:-1]) and word[:-1] not in prefixes:
            return word if follows == "a" else f"{word[:-1]} ."
        line = f"{'' if first else 'A '}{word} {follows}".rstrip()
        split = moses.tokenize(line, escape=False)
        return " ".join(split[0 if first else 1 : -1 if follows else None])

    # The tokens of a word within a line; those of a word with a full stop depend on the next word.
    inside = Memo(lambda word: "" if word[-1] == "." else ask((word, False, "A")))
    at_ends = Memo(ask)

    def tokens(words: list[str], number: int) -> str:
        word, after = words[number], words[number + 1 : number + 2]
        follows = "" if not after else kind(after[0]) if word[-1] == "." else "A"
        place = (word, number == 0, follows)
        return at_ends[place] if len(word) <= _LONGEST_KEPT else ask(place)

    def plain(word: str) -> bool:
        return word.isascii() and word.replace("-", "").isalnum()

    def kind(word: str) -> str:
        return "a" if word[0] in small_letters else "1" if word[0] in "0123456789" else "A"

    def tokenise(line: str) -> str:
        padded = line
        for mark in _ALWAYS_APART:
            if mark in line:  # faster than a regular expression
                padded = padded.replace(mark, f" {mark} ")
        words = padded.split()
        if _APOSTROPHES.search(padded) or not line.isprintable():
            return moses.tokenize(line, return_str=True, escape=False).strip()
        if not words:
            return ""
        split = list(map(inside.__getitem__, words))
        split[0], split[-1] = tokens(words, 0), tokens(words, len(words) - 1)
        if ". " in padded:
            for number, word in enumerate(words):
                if word[-1] == ".":
                    split[number] = tokens(words, number)
        return " ".join(split)

    return tokenise
