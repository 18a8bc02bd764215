"""Punctuation is Moses', though most rules are not tried."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.text.punctuation import normaliser

sacremoses = pytest.importorskip("sacremoses")
PARTS = [
    *"aB3. ,;:!?%()\"'`„“”–—´‘‚’…«»º<",
    " ",
    "  ",
    "\xa0",
    "''",
    "´´",
    "nº\xa0",
    "\xa0cm",
    "\r",
    "(\xa0",
    ') "',
    '."',
]


@pytest.fixture(scope="module", params=["en", "de", "fr", "cs", "xx"])
def both(request):
    return sacremoses.MosesPunctNormalizer(lang=request.param).normalize, normaliser(request.param)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_the_same_as_moses(both, text):
    moses, normalise = both
    assert normalise(text) == moses(text)
