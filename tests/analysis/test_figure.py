"""Figures become files of the format that their name says, and SVG; heat maps show every value."""

import numpy as np
import pytest
import torch

from tupe.analysis.figure import Matrices, as_svg, folded, heat_maps, new_figure
from tupe.position.dual_triangle import HIDDEN


def test_every_name_is_in_the_legend():
    """Also one that begins with _, which matplotlib leaves out, and one that it would read as mathematics."""
    names = ["_a", "$x^{$"]
    figure = new_figure(4, 3)
    for name in names:
        figure.subplots().plot([1, 2], label=folded(name))
    assert len(figure.legend().get_texts()) == len(names)
    assert "$x^{$" in as_svg(figure, "a title")


@pytest.mark.parametrize("reset", [False, True])
def test_every_value_is_drawn_on_one_scale_that_is_white_at_zero(reset):
    values = torch.randn(5, 20, 20, generator=torch.Generator().manual_seed(0))
    values[:, :, 0] = 1000 if reset else 0  # an untied [CLS] is far from the others
    values[:, 1, 5:9] = HIDDEN
    figure = heat_maps(Matrices(values, [f"head {n}" for n in range(5)], "All", reset=reset))
    squares = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in squares] == [f"head {n}" for n in range(5)]
    for axes, wanted in zip(squares, values.numpy()):
        (image,) = axes.get_images()
        drawn = np.ma.filled(image.get_array(), np.nan)
        if reset:
            assert np.isnan(drawn[1]).all() and np.isnan(drawn[:, 1]).all()  # [CLS] stands apart
            drawn = np.delete(np.delete(drawn, 1, 0), 1, 1)
        np.testing.assert_array_equal(drawn, wanted)
        low, high = image.get_clim()
        assert low == -high and 2 < high < 4
    text = as_svg(figure, "<a & b>")
    few = as_svg(heat_maps(Matrices(torch.tensor([[[-0.001, 1.5], [float("nan"), 2.0]]]), ["head 1"])), "segments")
    assert all(f">{number}</text>" in few for number in ("-0.001", "1.5", "2", "nan"))
    assert text.startswith("<svg") and "<title>&lt;a &amp; b&gt;</title>" in text and ">head 4</text>" in text
