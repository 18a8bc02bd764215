import pytest

from tupe.data.text.special_tokens import replace


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
    assert replace(line) == expected


@pytest.mark.parametrize("unit", ["a.", "a/", "a-", "a@"])
def test_a_long_line_without_names(unit):
    """The patterns are bounded; if not, a line of a megabyte would take hours."""
    assert replace(unit * 10_000) == unit * 10_000
