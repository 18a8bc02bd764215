"""Figures become files of the format that their name says."""

import pytest

from tupe.analysis.figure import colour, dashes, marker, new_figure, save_figure
from tupe.errors import UserError


def test_the_name_says_the_format(tmp_path):
    for name, start in (("new/a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")):
        save_figure(new_figure(2, 1), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


def test_lines_and_points_beyond_the_colours_differ():
    assert all(len({(colour(n), other(n)) for n in range(28)}) == 28 for other in (dashes, marker))


def test_unknown_format_is_refused(tmp_path):
    for name in ("a.txt", "a"):
        with pytest.raises(UserError, match=r"one of .*png"):
            save_figure(new_figure(2, 1), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file cannot be a folder, because a file is in its place: give another name"):
        save_figure(new_figure(2, 1), tmp_path / "file/a.png")
