import os

import pytest

from tupe.data.corpus.inputs import find
from tupe.errors import UserError


def test_folders_are_searched_and_sorted(tmp_path):
    for name in ("b.txt", "a/wiki_01", "a/wiki_00.bz2", "c.txt.xz", "d.jsonl", "e.md", ".hidden.txt", "z/book.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "books").mkdir()
    (tmp_path / "books/x.txt").touch()
    found = find([tmp_path / "e.md", tmp_path / "a", tmp_path / "z"], [tmp_path / "books"])
    assert [file.path.name for file in found] == ["e.md", "wiki_00.bz2", "wiki_01", "book.txt", "x.txt"]
    assert [file.book for file in found] == [False] * 4 + [True]
    names = [file.path.relative_to(tmp_path).as_posix() for file in find([tmp_path], [])]
    assert names == ["a/wiki_00.bz2", "a/wiki_01", "b.txt", "books/x.txt", "c.txt.xz", "d.jsonl", "z/book.txt"]


def test_what_is_wrong_is_told(tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="there is no input"):
        find([], [])
    with pytest.raises(UserError, match=r"there is no .*nothing"):
        find([tmp_path / "nothing"], [])
    with pytest.raises(UserError, match="empty holds no text files"):
        find([tmp_path / "empty"], [])
    with pytest.raises(UserError, match="empty holds no text files"):
        find([], [], [tmp_path / "empty"])
    with pytest.raises(UserError, match=r"a\.txt is among the inputs twice"):
        find([tmp_path, tmp_path / "a.txt"], [])


def test_linked_folders_are_searched_once_and_names_may_be_no_utf8(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.txt").touch()
    odd = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / odd).touch()
    (tmp_path / "in/linked").symlink_to(tmp_path / "real")
    (tmp_path / "real/up").symlink_to(tmp_path / "in")
    assert [file.name for file in find([tmp_path / "in"], [])] == ["in/caf\\xe9.txt", "in/linked/a.txt"]
    (tmp_path / "in/twice").symlink_to(tmp_path / "real")
    with pytest.raises(UserError, match=r"real/a\.txt is among the inputs twice"):
        find([tmp_path / "in"], [])


@pytest.mark.parametrize("named", [True, False])
def test_a_pipe_is_told(named, tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UserError, match=r"pipe\.txt is a pipe or a device"):
        find([tmp_path / "pipe.txt" if named else tmp_path], [])


@pytest.mark.parametrize("languages", [False, True])
def test_a_corpus_within_what_it_is_made_of_is_told(languages, tmp_path):
    (tmp_path / "de").mkdir()
    (tmp_path / "de/a.txt").touch()
    inputs = ([], [], [tmp_path]) if languages else ([tmp_path / "de"], [])
    assert len(find(*inputs, out=tmp_path / "../out")) == 1
    with pytest.raises(UserError, match=r"de/out lies in .*, which is read: name a folder outside of it"):
        find(*inputs, out=tmp_path / "de/out")


def test_a_link_to_nothing_is_told(tmp_path):
    (tmp_path / "a.txt").symlink_to(tmp_path / "gone")
    with pytest.raises(UserError, match=r"a\.txt is a link to nothing"):
        find([tmp_path], [])
