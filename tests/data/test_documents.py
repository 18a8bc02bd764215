"""Documents and their lines in every form of text."""

import bz2
import gzip
import json
import lzma

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data import documents


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """`read(raw)`: the documents of a file with these bytes."""
    path = tmp_path_factory.mktemp("reader") / "file.txt"

    def read(raw, book=False):
        path.write_bytes(raw)
        return [*documents.documents_of(path, book)]

    return read


PLAIN = b"Title\r\n  one two \n\n\n \nnext\nlast"
ELEMENTS = b'<doc id="1" url="u" title="A">\nA\n\nR&amp;B\n</doc>\n<doc id="2">\n\n</doc>\n<doc id="3">\nC\n</doc>\n'
MARKS = [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
RECORDS = [{"warc-id": "1", "text": "A\n\nR&amp;B"}, {"id": "2", "text": ""}, {"id": "5", "text": "\ud800E"}]


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        *((mark + PLAIN.decode().encode(name), [["Title", "one two"], ["next", "last"]]) for mark, name in MARKS),
        (ELEMENTS, [["A", "R&B"], ["C"]]),
        ("\n".join(map(json.dumps, RECORDS)).encode(), [["A", "R&B"], ["\ud800E"]]),
        (gzip.compress(b"one\n\ntwo\n", mtime=0), [["one"], ["two"]]),  # else its name has the time
        *((module.compress(b"one\n\ntwo\n"), [["one"], ["two"]]) for module in (bz2, lzma, zstd)),
        (b"", []),
    ],
)
def test_forms(read, raw, found):
    assert read(raw) == found


def test_a_json_array_is_not_read_as_text(read):
    with pytest.raises(json.JSONDecodeError):
        read(b'[\n{"text": "A"}\n]')


def test_a_book_is_one_document_and_a_long_one_is_cut(read, monkeypatch):
    assert read(b"one\n\ntwo\n", book=True) == [["one", "two"]]
    monkeypatch.setattr(documents, "DOCUMENT_CHARACTERS", 8)
    assert read(b"12345\n123456\n1\n\n1\n") == [["12345", "123456"], ["1"], ["1"]]


PIECES = [b"\n", b"\r", b" ", b"a", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\x85", b"\xe2\x80\xa8"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES)).map(b"".join), st.booleans())
def test_no_line_is_lost_whatever_the_bytes(read, raw, book):
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = [line for document in read(raw, book) for line in document]
    assert lines == list(filter(None, map(str.strip, text.split("\n"))))


def test_folders_are_searched_and_sorted(tmp_path):
    for name in ("b.txt", "a/wiki_01", "a/wiki_00.bz2", "c.txt.zst", "d.JSONL", "e.md", ".h.txt", "y/x.txt", "z/b.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = documents.find([tmp_path / "e.md", tmp_path / "a", tmp_path / "z"], [tmp_path / "y"], [])
    assert [one.path.name for one in found] == ["e.md", "wiki_00.bz2", "wiki_01", "b.txt", "x.txt"]
    assert [one.book for one in found] == [False] * 4 + [True]
    names = [one.path.relative_to(tmp_path).as_posix() for one in documents.find([tmp_path], [], [])]
    assert names == ["a/wiki_00.bz2", "a/wiki_01", "b.txt", "c.txt.zst", "d.JSONL", "y/x.txt", "z/b.txt"]
