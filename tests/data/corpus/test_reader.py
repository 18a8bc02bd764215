"""Lines read are lines in documents and lines reported, whatever bytes come."""

import bz2
import gzip
import json
import lzma
import zlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.corpus import reader

NOT_IN_DOCUMENTS = ("empty lines", "tags of documents", "lines that are no JSON object with a text")


def read(path, raw, book=False):
    path.write_bytes(raw)
    counts = Counter()
    return [*reader.documents_of(path, book, counts)], counts


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("reader") / "file.txt"


def test_plain_text(path):
    raw = b"Title\r\n  one two \n\n\n \nnext\nlast"
    documents, counts = read(path, b"\xef\xbb\xbf" + raw)
    assert documents == [["Title", "one two"], ["next", "last"]]
    assert counts == {"bytes": len(raw), "lines": 7, "empty lines": 3}


def test_a_book_is_one_document(path):
    documents, counts = read(path, b"one\n\ntwo\n", book=True)
    assert documents == [["one", "two"]]
    assert counts["empty lines"] == 1


def test_wikiextractor_elements(path):
    raw = b'<doc id="1" url="u" title="A">\nA\n\nabout A\n</doc>\n<doc id="2">\n\n</doc>\n<doc id="3">\nC\n</doc>\n'
    documents, counts = read(path, raw)
    assert documents == [["A", "about A"], ["C"]]
    assert counts == {"bytes": len(raw), "lines": 11, "tags of documents": 6, "empty lines": 2}


def test_wikiextractor_json(path):
    records = [{"id": "1", "text": "A\n\nabout"}, {"id": "2", "text": ""}, {"id": "3", "title": "no text"}]
    lines = [*map(json.dumps, records), '{"id": "4", "text": 4}', "[1]", '{"id": ', '{"id": "5", "text": "\\ud800E"}']
    documents, counts = read(path, "\n".join(lines).encode())
    assert documents == [["A", "about"], ["\ud800E"]]
    assert counts["lines that are no JSON object with a text"] == 4
    assert (counts["lines"], counts["empty lines"]) == (3 + 1 + 4 + 1, 2)


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_packed_by_what_the_bytes_say(module, path):
    documents, counts = read(path, module.compress(b"one\n\ntwo\n"))
    assert documents == [["one"], ["two"]]
    assert counts["bytes"] == 9


def test_a_long_line_is_cut_at_a_space_or_a_character(path, monkeypatch):
    monkeypatch.setattr(reader, "LINE_BYTES", 8)
    documents, counts = read(path, "one two three\nääääää\n".encode())
    assert documents == [["one two", "three", "ääää", "ää"]]
    assert counts == {"bytes": 27, "lines": 4, "long lines cut": 2}


def test_a_line_as_long_as_may_be_is_not_cut(path, monkeypatch):
    monkeypatch.setattr(reader, "LINE_BYTES", 8)
    assert read(path, b"one two ") == ([["one two"]], {"bytes": 8, "lines": 1})


def test_a_long_document_is_cut(path, monkeypatch):
    monkeypatch.setattr(reader, "DOCUMENT_CHARACTERS", 8)
    documents, counts = read(path, b"12345\n123456\n1\n\n1\n")
    assert documents == [["12345", "123456"], ["1"], ["1"]]
    assert counts["long documents cut"] == 1


PIECES = [b"\n", b"\r", b" ", b"a", b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\x85", b"\xe2\x80\xa8", b"\x1f\x8b", b"BZh"]
PIECES += [b'<doc id="1">', b"</doc>", b'{"text": "a\\nb"}\n', b'{"text": 1}', b'{"a":']
BYTES = st.one_of(st.binary(), st.lists(st.sampled_from(PIECES)).map(b"".join))


@settings(deadline=None)
@given(BYTES, st.booleans(), st.sampled_from([8, 1 << 20]))
def test_lines_in_are_lines_kept_and_lines_reported(path, raw, book, limit):
    path.write_bytes(raw)
    counts = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "LINE_BYTES", limit)
        try:
            documents = [*reader.documents_of(path, book, counts)]
        except (OSError, EOFError, lzma.LZMAError, zlib.error):  # packed, but not really
            return
    assert all(documents)
    assert all(line == line.strip() != "" for document in documents for line in document)
    assert sum(map(len, documents)) + sum(counts[reason] for reason in NOT_IN_DOCUMENTS) == counts["lines"]
    if not reader._JSON.match(raw.removeprefix(b"\xef\xbb\xbf")) or book:
        body = raw.removeprefix(b"\xef\xbb\xbf")
        in_file = body.count(b"\n") + (not body.endswith(b"\n") and body != b"")
        assert counts["lines"] == in_file + counts["long lines cut"]
        assert counts["bytes"] == len(body)
