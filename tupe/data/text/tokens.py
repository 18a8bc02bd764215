"""Tokenises as Moses does (sacremoses)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Callable

from tupe.data.text.special_tokens import SPECIAL_TOKENS

_SPECIAL = re.compile(f"({'|'.join(map(re.escape, SPECIAL_TOKENS))})")
# ASCII punctuation save . , - ' `
_ALWAYS_APART = re.compile(r"[!-&(-+/:-@\[-_{-~]")
_APOSTROPHES = re.compile(r"' +'")
_CACHED_WORDS = 1 << 17
_LONGEST_CACHED = 64


def tokeniser(language: str) -> Callable[[str], str]:
    """A function from a line to its tokens, separated by spaces; special tokens stay whole."""
    tokenise = by_words(language)

    def tokenise_around_special_tokens(line: str) -> str:
        if "<" not in line:
            return tokenise(line)
        parts = (part if part in SPECIAL_TOKENS else tokenise(part) for part in _SPECIAL.split(line))
        return " ".join(part for part in parts if part)

    return tokenise_around_special_tokens


def by_words(language: str) -> Callable[[str], str]:
    """Moses' tokeniser, several times faster: it is asked once for each word, and the answer is kept.

    Its first rule puts spaces around most punctuation, wherever that stands; here too that comes first. Then a word is
    what stands between two spaces. The other rules look beyond it in few places, which are given to them: whether the
    word is the first of the line, whether it is the last, and after a full stop, whether a small letter, a digit or
    something else follows. A line where an apostrophe meets an apostrophe, or with characters that are not printed, is
    given whole.
    """
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    small_letters = frozenset(moses.IsLower)

    @lru_cache(maxsize=_CACHED_WORDS)
    def tokens(word: str, first: bool, follows: str) -> str:
        line = f"{'' if first else 'A '}{word} {follows}".rstrip()
        split = moses.tokenize(line, escape=False)
        return " ".join(split[0 if first else 1 : -1 if follows else None])

    def kind(word: str) -> str:
        return "a" if word[0] in small_letters else "1" if word[0] in "0123456789" else "A"

    def tokenise(line: str) -> str:
        padded = _ALWAYS_APART.sub(r" \g<0> ", line)
        words = padded.split()
        if _APOSTROPHES.search(padded) or not line.isprintable():
            return moses.tokenize(line, return_str=True, escape=False).strip()
        for number, word in enumerate(words):
            if not (word.isalnum() and word.isascii()):
                after = words[number + 1 : number + 2]
                follows = "" if not after else kind(after[0]) if word[-1] == "." else "A"
                ask = tokens if len(word) <= _LONGEST_CACHED else tokens.__wrapped__
                words[number] = ask(word, number == 0, follows)
        return " ".join(words)

    return tokenise
