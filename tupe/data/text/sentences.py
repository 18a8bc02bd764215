"""Split lines into sentences by spaCy's rules for a language; no model is needed."""

import re
from collections.abc import Callable
from functools import lru_cache

_LONGEST_WORD = 256  # characters; what is longer is no word, and spaCy would need quadratic time for it
# spaCy keeps each word it sees; when it holds so many, a new one takes over.
_WORDS_KEPT = 200_000
_CACHED_WORDS = 1 << 17

# (a word, whether a sentence ended before it) -> (where sentences begin in the word, whether one ended in it since)
_Begins = Callable[[str, bool], tuple[tuple[int, ...], bool]]


def splitter(language: str) -> Callable[[list[str]], list[str]]:
    """Make a function from the lines of a document to its sentences, for a language of spaCy's or `xx` for any.

    spaCy's tokens are parts of words, and whether a sentence begins at one depends on those before it by one bit: a
    sentence ended, and no word came since. So spaCy is asked once for a word, and only for one that ends a sentence or
    comes next.
    """
    rules = _rules(language)
    ends = rules.get_pipe("sentencizer").punct_chars

    @lru_cache(maxsize=_CACHED_WORDS)
    def begins(word: str, ended: bool) -> tuple[tuple[int, ...], bool]:
        nonlocal rules
        if word.isalnum() or len(word) > _LONGEST_WORD:
            return ((0,) if ended else ()), False
        if len(rules.vocab.strings) > _WORDS_KEPT:
            rules = _rules(language)
        found = []
        for token in rules.make_doc(word):
            if token.text in ends:
                ended = True
            elif ended and not token.is_punct:
                found.append(token.idx)
                ended = False
        return tuple(found), ended

    ascii_end, any_end = (re.compile(f"[{re.escape(''.join(end))}]") for end in (filter(str.isascii, ends), ends))

    def split(lines: list[str]) -> list[str]:
        lines = (" ".join(line.split()) for line in lines)
        return [one for line in lines for one in _sentences(line, ascii_end if line.isascii() else any_end, begins)]

    return split


def _rules(language: str):
    import spacy

    rules = spacy.blank(language)
    rules.add_pipe("sentencizer")
    return rules


def _sentences(line: str, end: re.Pattern[str], begins: _Begins) -> list[str]:
    cuts = [0]
    found = end.search(line)
    while found:
        at, ended = line.rfind(" ", 0, found.start()) + 1, False
        while True:
            after = line.find(" ", at)
            word = line[at:] if after < 0 else line[at:after]
            inside, ended = begins(word, ended)
            cuts += (at + begin for begin in inside)
            at += len(word) + 1
            if not ended or after < 0:
                break
        found = end.search(line, at)
    sentences = (line[begin:stop].strip() for begin, stop in zip(cuts, [*cuts[1:], None]))
    return [sentence for sentence in sentences if sentence]
