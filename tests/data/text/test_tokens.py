"""Tokens are Moses', though Moses is asked word by word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.text.tokens import by_words, tokeniser

sacremoses = pytest.importorskip("sacremoses")

PARTS = [
    *"aB3é.,'`-!?\"()&%$€<>_",
    " ",
    " ",
    "Mr.",
    "No.",
    "U.S.",
    "don't",
    "...",
    "1,000",
    "n't",
    "house,",
    "end.",
    "a-b.",
    "\x01",
    "\xa0",
    "²",
    "ª",
]
TEXT = st.lists(st.sampled_from(PARTS)).map("".join)


@pytest.fixture(scope="module", params=["en", "fr", "de", "xx"])
def both(request):
    return sacremoses.MosesTokenizer(lang=request.param), by_words(request.param)


@settings(deadline=None)
@given(TEXT)
def test_the_same_as_moses(both, text):
    moses, tokenise = both
    assert tokenise(text).split() == moses.tokenize(text, escape=False)


def test_abbreviations_before_a_number():
    assert by_words("en")("See No. 3 of it. No. He said 3 pp. 4") == "See No. 3 of it . No . He said 3 pp. 4"


def test_special_tokens_stay_whole():
    assert tokeniser("en")("(See <url>, or <email>.)") == "( See <url> , or <email> . )"
    assert tokeniser("en")("a<url>b <c>") == "a <url> b < c >"
