"""Figures become files of the format that their name says."""

from tupe.analysis.figure import colour, dashes, folded, marker, new_figure, save_figure


def test_the_name_says_the_format(tmp_path):
    for name, start in (("new/a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")):
        save_figure(new_figure(2, 1), tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


def test_lines_and_points_beyond_the_colours_differ():
    assert all(len({(colour(n), other(n)) for n in range(28)}) == 28 for other in (dashes, marker))


def test_every_name_is_in_the_legend(tmp_path):
    """Also one that begins with _, which matplotlib leaves out."""
    names = ["_a", "$x^{$"]
    figure = new_figure(4, 3)
    for name in names:
        figure.subplots().plot([1, 2], label=folded(name))
    legend = figure.legend()
    save_figure(figure, tmp_path / "a.png")
    assert len(legend.get_texts()) == len(names)
