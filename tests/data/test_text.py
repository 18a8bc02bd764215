"""What each stage makes of a line, and that Moses' and spaCy's rules are called as they are."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data import text
from tupe.data.text import LANGUAGES, PROFILES, Sentences, TextProcessing, mark, repair, tokenizer, unescape

pytest.importorskip("spacy")
pytest.importorskip("sacremoses")


@pytest.fixture(scope="module", params=PROFILES)
def processing(request):
    return TextProcessing(PROFILES[request.param], LANGUAGES[request.param])


def test_paper_profile():
    processing = TextProcessing(PROFILES["paper"], "en")
    counts = Counter()
    lines = ["“Don’t!” said Mr. X – see www.a.org/b.  Bye…", "\x00\ufffd", "It ends"]
    assert processing.document(lines, counts) == ['" don \'t ! "', "said mr. x - see <url> .", "bye ...", "it ends"]
    assert counts["repair-characters: removed"] == 1
    assert counts["split-sentences: added"] == 2
    assert counts["special-tokens: changed"] == 1

    TextProcessing(("keep-white-space",), "xx").document([" One"], counts := Counter())
    assert counts == {"keep-white-space: changed": 1, "keep-white-space: removed": 0}


def test_sentencepiece_profile_leaves_text_as_it_is():
    processing = TextProcessing(PROFILES["sentencepiece"], "xx")
    assert processing.line("“Don’t!” see www.a.org/b") == "“Don’t!” see www.a.org/b"
    assert processing.document(["One two. Three Four."], Counter()) == ["One two.", "Three Four."]


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1)))
def test_lines_in_are_lines_out_and_lines_counted(processing, raw):
    lines = [line.decode("utf-8", "surrogateescape") for line in raw]
    counts = Counter()
    out = processing.document(lines, counts)
    added = sum(number for name, number in counts.items() if name.endswith(": added"))
    removed = sum(number for name, number in counts.items() if name.endswith(": removed"))
    assert len(out) == len(lines) + added - removed
    for line in out:
        assert line.strip()
        assert "\n" not in line
        assert line.encode("utf-8")


def test_a_mask_stays():
    processing = TextProcessing(PROFILES["paper"], "en")
    assert processing.around("Don’t stop! The <mask> is.") == "don 't stop ! the <mask> is ."
    assert processing.around("<mask>") == "<mask>"


def test_broken_utf8_is_windows_1252_and_what_is_no_text_goes_but_joiners_stay():
    assert repair(b"caf\xe9 \x96 \x81na\xc3\xafve".decode("utf-8", "surrogateescape")) == "café – naïve"
    assert repair("\ufeffa\x00b\u200bc\u00add\ue000e\ufffdf") == "abcdef"
    assert repair(" a\u00a0 b\t\x85c\u2028") == "a b c"
    assert repair("می\u200cخواهم") == "می\u200cخواهم"
    assert mark(b"caf\xe9  x".decode("utf-8", "surrogateescape")) == "caf\ufffd x"


@settings(deadline=None)
@given(st.binary())
def test_any_bytes(raw):
    text = raw.decode("utf-8", "surrogateescape")
    for result in (repair(text), mark(text)):
        assert result.encode("utf-8").decode("utf-8") == result
        assert result == " ".join(result.split())
    assert repair(repair(text)) == repair(text)


@pytest.mark.parametrize(
    ("escaped", "characters"),
    [
        ("AT&amp;T said a &lt; b &gt; c", "AT&T said a < b > c"),
        ("It &apos;s &quot; here &quot; &#124; &#91; x &#93;", 'It \'s " here " | [ x ]'),
        ("caf&eacute; &#233; &#xE9;", "café é é"),
        ("&amp;lt; once", "&lt; once"),
        ("R&D; AT&T &C; a?b=1&copy=2&region=3", "R&D; AT&T &C; a?b=1&copy=2&region=3"),
    ],
)
def test_references_are_characters(escaped, characters):
    assert unescape(escaped) == characters


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("See http://a.org/b?c=d&e.", "See <url>."),
        ("(https://a.org/x) and www.b.com/c, or ftp://c.d", "(<url>) and <url>, or <url>"),
        ("on http://localhost now", "on <url> now"),
        ("Write to a.b+c@d.co.uk, please.", "Write to <email>, please."),
        ("Open C:\\data\\a.txt or /usr/share/b.tar.gz or readme.pdf.", "Open <file> or <file> or <file>."),
        ("either and/or 3.5 Mr. Smith a@b e.g. this .txt", "either and/or 3.5 Mr. Smith a@b e.g. this .txt"),
        ("the doc.txts of U.S.A.", "the doc.txts of U.S.A."),
    ],
)
def test_names_become_tokens(line, expected):
    assert text.special_tokens(line) == expected


@pytest.mark.parametrize("unit", ["a.", "a/", "a-", "a@"])
def test_a_long_line_without_names(unit):
    """The patterns are bounded; if not, a line of a megabyte would take hours."""
    assert text.special_tokens(unit * 10_000) == unit * 10_000


def test_sentences_of_a_document():
    split = Sentences("en")
    assert split(["Mr. Smith came.  He left!", "Why?"]) == ["Mr. Smith came.", "He left!", "Why?"]
    assert Sentences("xx")(["老房子。 安娜!"]) == ["老房子。", "安娜!"]
    found = split(['Oh !Ah. "Why?" _No._ (“Yes.”) ¿Qué? « Oui ! » He said , " Go . " I went.'])
    assert "|".join(found) == 'Oh !|Ah.|"Why?"|_No._|(“Yes.”)|¿Qué?|« Oui ! »|He said , " Go . "|I went.'


def test_words_are_forgotten_again(monkeypatch):
    """spaCy keeps every word it sees; memory must not grow with the corpus."""
    monkeypatch.setattr(text, "_STRINGS_KEPT", 3000)
    split = Sentences("xx")
    for number in range(40):
        split([" ".join(f"w{number}x{i}. " for i in range(200))])
        assert len(split._rules.vocab.strings) < 5000


def test_a_word_without_end_takes_linear_time():
    assert Sentences("en")(["(" * 300_000]) == ["(" * 300_000]


def test_tokens_are_moses():
    tokenize = tokenizer("en")
    assert tokenize("See No. 3 of it. No. He said 3 pp. 4") == "See No. 3 of it . No . He said 3 pp. 4"
    assert tokenize("(See <url>, or <email>.)") == "( See <url> , or <email> . )"
    assert tokenize("a<url>b <c>") == "a <url> b < c >"
