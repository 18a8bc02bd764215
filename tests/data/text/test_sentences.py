"""Sentences are spaCy's, though spaCy sees a shorter line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.text import sentences

spacy = pytest.importorskip("spacy")

TEXT = st.lists(st.sampled_from([*"aB3é.!?,;:'\"()-…。“”", " ", " ", "Mr.", "U.S.", "a.m.", "don't", "\t"])).map(
    "".join
)


@pytest.fixture(scope="module", params=["en", "xx"])
def both(request):
    plain = spacy.blank(request.param)
    plain.add_pipe("sentencizer")
    return plain, sentences.splitter(request.param)


@settings(deadline=None)
@given(TEXT)
def test_the_same_as_spacy(both, text):
    plain, split = both
    line = " ".join(text.split())
    expected = [sentence.text.strip() for sentence in plain(line).sents]
    assert split([line]) == [sentence for sentence in expected if sentence]


def test_lines_of_a_document():
    split = sentences.splitter("en")
    assert split(["Mr. Smith came. He left!", "Why?"]) == ["Mr. Smith came.", "He left!", "Why?"]


def test_words_are_forgotten_again(monkeypatch):
    """spaCy keeps every word it sees; memory must not grow with the corpus."""
    monkeypatch.setattr(sentences, "_WORDS_KEPT", 3000)
    made = []
    monkeypatch.setattr(
        sentences, "_rules", lambda language, original=sentences._rules: made.append(original(language)) or made[-1]
    )
    split = sentences.splitter("xx")
    for number in range(40):
        split([" ".join(f"w{number}x{i}. " for i in range(200))])
    assert len(made) > 2
    assert all(len(rules.vocab.strings) < 5000 for rules in made)


def test_a_word_without_end_takes_linear_time():
    assert sentences.splitter("en")(["(" * 300_000]) == ["(" * 300_000]
