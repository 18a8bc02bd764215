"""Compute exact match and F1 of an answer, by SQuAD's rules for all languages or by MLQA's for each language.

Rajpurkar et al., 2016 (evaluate-v1.1) and Lewis et al., 2020 (mlqa_evaluation_v1). Both lower-case, delete punctuation,
then articles, and compare the rest: as a whole (exact match), or as a bag of tokens (F1).
"""

import re
import string
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache

Tokens = Callable[[str], list[str]]

#: The languages of MLQA's contexts, with a pattern of their articles; None for those without.
_ARTICLES = {
    "en": r"\b(?:a|an|the)\b",
    "es": r"\b(?:un|una|unos|unas|el|la|los|las)\b",
    "de": r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "vi": r"\b(?:của|là|cái|chiếc|những)\b",
    "ar": r"ال",  # anywhere
    "hi": None,
    "zh": None,
}
_CHINESE = re.compile("[\u4e00-\u9fa5]|[^\\s\u4e00-\u9fa5]+")  # each Chinese character is a token


@cache
def tokens(rules: str, language: str) -> Tokens:
    """Make the function that lower-cases a text, deletes punctuation and articles, and splits the rest.

    SQuAD's rules are English, whatever the language of the context is.
    """
    punctuation, articles, split = string.punctuation, _ARTICLES["en"], str.split
    if rules == "mlqa":
        of_unicode = (c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c).startswith("P"))
        punctuation, articles = punctuation + "".join(of_unicode), _ARTICLES[language]
        split = _CHINESE.findall if language == "zh" else split
    deleted = dict.fromkeys(map(ord, punctuation))

    def function(text: str) -> list[str]:
        text = text.lower().translate(deleted)
        return split(re.sub(articles, " ", text) if articles else text)

    return function


def scores(prediction: str, answers: Iterable[str], of: Tokens) -> tuple[bool, float]:
    """Compute exact match and F1, each with its best answer; both are 0 without answers."""
    predicted = of(prediction)
    found = [of(answer) for answer in answers]
    return predicted in found, max((_f1(predicted, answer) for answer in found), default=0.0)


def _f1(prediction: list[str], answer: list[str]) -> float:
    """Compute the F1 of two bags, `2 same / (|prediction| + |answer|)`."""
    same = sum((Counter(prediction) & Counter(answer)).values())
    return 2 * same / (len(prediction) + len(answer)) if same else 0.0
