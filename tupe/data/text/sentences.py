"""Splits lines into sentences by spaCy's rules for a language; no model is needed."""

from __future__ import annotations

from bisect import bisect_right
from typing import Callable

from tupe.errors import UserError

_LONGEST_WORD = 256  # characters; what is longer is no word, and spaCy would need quadratic time for it
# spaCy keeps each word it sees; when it holds so many, a new one takes over.
_WORDS_KEPT = 200_000


def splitter(language: str) -> Callable[[list[str]], list[str]]:
    """A function from the lines of a document to its sentences.

    Args:
        language: a language of spaCy's, or `xx` for any.

    Raises:
        UserError: if spaCy does not have the language.
    """
    rules = _rules(language)

    def split(lines: list[str]) -> list[str]:
        nonlocal rules
        if len(rules.vocab.strings) > _WORDS_KEPT:
            rules = _rules(language)
        return [sentence for line in lines for sentence in _sentences(line, rules)]

    return split


def _rules(language: str):
    import spacy

    try:
        rules = spacy.blank(language)
    except ImportError as error:
        raise UserError(f"spaCy cannot split sentences of the language '{language}': {error}") from None
    rules.max_length = 1 << 40  # a bound for parsers; this needs little memory
    rules.add_pipe("sentencizer")
    return rules


def _sentences(line: str, rules) -> list[str]:
    """The rules see one `x` for neighbouring plain words: only a word with a mark in it ends a sentence."""
    words = line.split()
    shown, begins, begins_shown = [], [], []  # and where each word begins, in the line and in what is shown of it
    at = at_shown = 0
    after_plain = False
    for word in words:
        plain = word.isalnum() or len(word) > _LONGEST_WORD
        if not (plain and after_plain):
            shown.append("x" if plain else word)
            begins.append(at)
            begins_shown.append(at_shown)
            at_shown += len(shown[-1]) + 1
        after_plain = plain
        at += len(word) + 1
    cuts = []
    for sentence in rules(" ".join(shown)).sents:
        number = bisect_right(begins_shown, sentence.start_char) - 1
        cuts.append(begins[number] + sentence.start_char - begins_shown[number])
    line = " ".join(words)
    sentences = (line[begin:end].strip() for begin, end in zip(cuts, [*cuts[1:], None]))
    return [sentence for sentence in sentences if sentence]
