"""Whatever bytes come, what is left is text that can be written and read again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.text.characters import mark, repair


def test_broken_utf8_is_read_as_windows_1252():
    assert repair(b"caf\xe9 \x96 \x81na\xc3\xafve".decode("utf-8", "surrogateescape")) == "café – naïve"


def test_what_is_no_text_goes():
    assert repair("\ufeffa\x00b\u200bc\u00add\ue000e\ufffdf") == "abcdef"
    assert repair(" a\u00a0 b\t\x85c\u2028") == "a b c"


def test_joiners_stay():
    assert repair("می\u200cخواهم") == "می\u200cخواهم"


def test_without_the_stage_a_broken_byte_is_marked():
    assert mark(b"caf\xe9  x".decode("utf-8", "surrogateescape")) == "caf\ufffd x"


@settings(deadline=None)
@given(st.binary())
def test_any_bytes(raw):
    text = raw.decode("utf-8", "surrogateescape")
    for result in (repair(text), mark(text)):
        assert result.encode("utf-8").decode("utf-8") == result
        assert result == " ".join(result.split())
    assert repair(repair(text)) == repair(text)
