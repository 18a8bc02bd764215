"""Figures become files of the format that their name says."""

import shutil
import warnings

import numpy as np
import pytest

from tupe.analysis.figure import colour, dashes, folded, heat_maps, marker, new_figure, save_figure
from tupe.errors import UserError


def test_the_name_says_the_format(tmp_path):
    for name, start in (("new/a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")):
        save_figure(new_figure(2, 1), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("shape", [(4, 4), (0, 4, 4), (3, 4, 4)])
def test_maps_without_their_titles(shape):
    with pytest.raises(UserError, match=r"^values are \(.*\) with 1 title\(s\), but must be \(number, n, m\)"):
        heat_maps(np.zeros(shape), ["a"], "logit")


def test_lines_and_points_beyond_the_colours_differ():
    assert all(len({(colour(n), other(n)) for n in range(28)}) == 28 for other in (dashes, marker))


def test_unknown_format_is_refused(tmp_path):
    for name in ("a.txt", "a"):
        with pytest.raises(UserError, match=r"one of .*png"):
            save_figure(new_figure(2, 1), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_every_name_is_in_the_legend(tmp_path, capsys):
    """Also one that begins with _, which matplotlib leaves out; of letters without a glyph it warns line by line."""
    names = ["_a", "$x^{$", "\u65e5\u672c"]
    figure = new_figure(4, 3)
    for name in names:
        figure.subplots().plot([1, 2], label=folded(name))
    legend = figure.legend()
    with warnings.catch_warnings(record=True) as caught:
        save_figure(figure, tmp_path / "a.png")
    assert not caught
    assert len(legend.get_texts()) == len(names)
    assert capsys.readouterr().err == (
        f"warning: the font of {tmp_path / 'a.png'} has no \u65e5\u672c: give names of letters that it has\n"
    )


@pytest.mark.skipif(shutil.which("xelatex") is not None, reason="TeX is there")
def test_a_format_that_needs_another_program(tmp_path):
    figure = new_figure(2, 1)
    figure.suptitle("a")
    with pytest.raises(UserError, match=r"a\.pgf cannot be drawn \('xelatex' not found.*\): give a name that ends"):
        save_figure(figure, tmp_path / "a.pgf")
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file cannot be a folder, because a file is in its place: give another name"):
        save_figure(new_figure(2, 1), tmp_path / "file/a.png")
