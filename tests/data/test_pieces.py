"""Each piece's characters in the original text, whatever SentencePiece's normalization does to it."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.conftest import LINES
from tupe.data.manifest import Manifest
from tupe.data.questions import Encoder, _target
from tupe.util import UserError

TRICKY = [
    "Ⅷ houses … and ½ river",  # one character, several pieces
    "ｶﾞ ①② ｆｕｌｌ ｗｉｄｔｈ １８８５年",  # half-width kana with its mark, circled digits, full-width letters
    "a\u200bb\ufeffc\u00a0d  e\t\r\nf\u2028g",  # zero width, no-break space, runs and other kinds of space
    unicodedata.normalize("NFD", "Ngôi nhà cổ 한국 é"),  # combining marks
    "العَرَبِيَّة نص",  # vowel marks
    "हिन्दी क्षत्रिय \u200d",
    "😀 👩‍👩‍👧 𝔘𝔫𝔦",
    "  leading and trailing  ",
    "a\ud800b\udc81c \ufffd\x00 d\u202e",  # half characters and controls, which JSON can hold
    "text <mask> and <s>",
]


@pytest.fixture(scope="module")
def encoder(corpus):
    return Encoder(Manifest.load(corpus))


def check(encoder, text):
    pieces = encoder(text)
    blank = pieces.begin == pieces.end
    assert all(text[end - 1].isspace() for end in pieces.end[blank])
    assert (np.diff(pieces.begin) >= 0).all() and (np.diff(pieces.end) >= 0).all()
    assert ((pieces.begin[1:] >= pieces.end[:-1]) | (pieces.begin[1:] == pieces.begin[:-1])).all()  # apart, or one
    assert len(pieces.end) == 0 or pieces.end[-1] <= len(text)
    return pieces


@pytest.mark.parametrize("text", [*LINES.values(), *TRICKY])
def test_pieces_lead_back(text, encoder):
    pieces = check(encoder, text)
    covered = {i for begin, end in zip(pieces.begin, pieces.end) for i in range(begin, end)}
    left_out = {c for i, c in enumerate(text) if i not in covered and not c.isspace()}
    assert all(unicodedata.category(c).startswith("C") or c == "\ufffd" for c in left_out)


@given(st.text(max_size=40))
def test_any_text(encoder, text):
    check(encoder, text)


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        (LINES["ar"], "النهر"),
        (LINES["hi"], "नदी"),
        (LINES["th"], "แม่น้ำ"),
        (LINES["zh"], "1885年"),
        (LINES["vi"], "dòng sông"),
        ("In Ⅷ houses", "Ⅷ"),
        ("the ｶﾞ river", "ｶﾞ"),
        ("a \u200b river …", "…"),
        ("broken\x00 old\udc81 house", "house"),
    ],
)
def test_an_answer_is_within_its_pieces(context, answer, encoder):
    begin = context.find(answer)
    pieces = encoder(context)
    first, last = pieces.span(begin, begin + len(answer) - 1)
    assert answer in context[pieces.begin[first] : pieces.end[last]]
    assert pieces.begin[last] < begin + len(answer)
    assert first == 0 or pieces.end[first - 1] <= begin or pieces.begin[first - 1] == pieces.begin[first]


def test_spaces_around_an_answer_are_not_of_it(encoder):
    text, pieces = LINES["en"], encoder(LINES["en"])
    answers = [[{"text": answer, "answer_start": text.find(answer)}] for answer in ("old house", " old house ")]
    assert _target(text, pieces, answers[0]) == _target(text, pieces, answers[1])


def test_a_corpus_whose_cleaning_changed_words_is_refused(prepared):
    with pytest.raises(UserError, match=r"changes words.*--profile sentencepiece"):
        Encoder(Manifest.load(prepared))
