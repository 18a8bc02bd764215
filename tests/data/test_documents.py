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

from tupe.data import documents

NOT_IN_DOCUMENTS = ("empty lines", "tags of documents", "lines that are no JSON object with a text")


def read(path, raw, book=False):
    path.write_bytes(raw)
    counts = Counter()
    return [*documents.documents_of(path, book, counts)], counts


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("reader") / "file.txt"


def test_plain_text(path):
    raw = b"Title\r\n  one two \n\n\n \nnext\nlast"
    found, counts = read(path, b"\xef\xbb\xbf" + raw)
    assert found == [["Title", "one two"], ["next", "last"]]
    assert counts == {"bytes": len(raw), "lines": 7, "empty lines": 3}


def test_a_book_is_one_document(path):
    found, counts = read(path, b"one\n\ntwo\n", book=True)
    assert found == [["one", "two"]]
    assert counts["empty lines"] == 1


def test_wikiextractor_elements(path):
    raw = b'<doc id="1" url="u" title="A">\nA\n\nabout A\n</doc>\n<doc id="2">\n\n</doc>\n<doc id="3">\nC\n</doc>\n'
    found, counts = read(path, raw)
    assert found == [["A", "about A"], ["C"]]
    assert counts == {"bytes": len(raw), "lines": 11, "tags of documents": 6, "empty lines": 2}


def test_wikiextractor_json(path):
    records = [{"id": "1", "text": "A\n\nabout"}, {"id": "2", "text": ""}, {"id": "3", "title": "no text"}]
    lines = [*map(json.dumps, records), '{"id": "4", "text": 4}', "[1]", '{"id": ', '{"id": "5", "text": "\\ud800E"}']
    found, counts = read(path, "\n".join(lines).encode())
    assert found == [["A", "about"], ["\ud800E"]]
    assert counts["lines that are no JSON object with a text"] == 4
    assert (counts["lines"], counts["empty lines"]) == (3 + 1 + 4 + 1, 2)


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_packed_by_what_the_bytes_say(module, path):
    found, counts = read(path, module.compress(b"one\n\ntwo\n"))
    assert found == [["one"], ["two"]]
    assert counts["bytes"] == 9


def test_a_long_line_is_cut(path, monkeypatch):
    monkeypatch.setattr(documents, "LINE_CHARACTERS", 5)
    found, counts = read(path, "one two thr\nääääää\n".encode())
    assert found == [["one t", "wo th", "r", "äääää", "ä"]]
    assert counts == {"bytes": 25, "lines": 5, "long lines cut": 3}


def test_a_long_document_is_cut(path, monkeypatch):
    monkeypatch.setattr(documents, "DOCUMENT_CHARACTERS", 8)
    found, counts = read(path, b"12345\n123456\n1\n\n1\n")
    assert found == [["12345", "123456"], ["1"], ["1"]]
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
        patch.setattr(documents, "LINE_CHARACTERS", limit)
        try:
            found = [*documents.documents_of(path, book, counts)]
        except (OSError, EOFError, lzma.LZMAError, zlib.error):  # packed, but not really
            return
    assert all(found)
    assert all(line == line.strip() != "" for document in found for line in document)
    assert sum(map(len, found)) + sum(counts[reason] for reason in NOT_IN_DOCUMENTS) == counts["lines"]
    if not documents._JSON.match(raw.removeprefix(b"\xef\xbb\xbf").lstrip()) or book:
        body = raw.removeprefix(b"\xef\xbb\xbf")
        in_file = body.count(b"\n") + (not body.endswith(b"\n") and body != b"")
        assert counts["lines"] == in_file + counts["long lines cut"]
        assert counts["bytes"] == len(body)


def test_folders_are_searched_and_sorted(tmp_path):
    for name in ("b.txt", "a/wiki_01", "a/wiki_00.bz2", "c.txt.xz", "d.jsonl", "e.md", ".hidden.txt", "z/book.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "books").mkdir()
    (tmp_path / "books/x.txt").touch()
    found = documents.find([tmp_path / "e.md", tmp_path / "a", tmp_path / "z"], [tmp_path / "books"])
    assert [path.name for path, _ in found] == ["e.md", "wiki_00.bz2", "wiki_01", "book.txt", "x.txt"]
    assert [identity.book for _, identity in found] == [False] * 4 + [True]
    names = [path.relative_to(tmp_path).as_posix() for path, _ in documents.find([tmp_path], [])]
    assert names == ["a/wiki_00.bz2", "a/wiki_01", "b.txt", "books/x.txt", "c.txt.xz", "d.jsonl", "z/book.txt"]
