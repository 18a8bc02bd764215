from tupe.data.corpus.inputs import find


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
