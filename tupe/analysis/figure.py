"""Figures without a screen, saved as files or as SVG; heat maps of matrices on one scale of colors."""

import io
import math
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from tupe.position.dual_triangle import HIDDEN
from tupe.util import atomic

#: The palette of Okabe and Ito, which color-blind readers can distinguish; black last.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
#: Dashes and markers change where the colors repeat.
_DASHES, _MARKERS = ("-", "--", ":", "-."), "os^D"


class Matrices(NamedTuple):
    """Matrices of a model, which `heat_maps` draws."""

    values: Tensor  # `(number, n, m)`, queries by keys
    names: list[str]  # name of each matrix
    title: str = ""  # title of the figure
    label: str = "added to the logit"  # label of the color scale
    axes: tuple[str, str] = ("key position", "query position")
    reset: bool = False  # whether row and column 0 are those of an untied `[CLS]`

    @property
    def limit(self) -> float:
        """The limit of the color scale on both sides of 0, which one value in 200 exceeds.

        The values of an untied `[CLS]` can be far from the others, so they are not counted.
        """
        sizes = self.values[:, self.reset :, self.reset :].abs().numpy()
        sizes = np.where(sizes > -HIDDEN / 2, np.nan, sizes)  # of keys that a mask hides
        return float(np.nanquantile(sizes, 0.995)) or 1.0


def color_of(number: int) -> str:
    """Return the color of the line or bar with this number, from 0."""
    return _COLORS[number % len(_COLORS)]


def dashes(number: int) -> str:
    """Return the dashes of the line with this number; with its color, 28 lines differ."""
    return _DASHES[number // len(_COLORS) % len(_DASHES)]


def marker(number: int) -> str:
    """Return the marker of the points with this number; with their color, 28 kinds differ."""
    return _MARKERS[number // len(_COLORS) % len(_MARKERS)]


def new_figure(width: float, height: float, title: str = ""):
    """Return an empty figure of `width` x `height` inches, below a title that is folded to its width."""
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")
    if title:
        folds = (textwrap.fill(plain(line), int(11 * width), break_on_hyphens=False) for line in title.splitlines())
        figure.suptitle("\n".join(folds))
    return figure


def plain(text: str) -> str:
    """Escape what matplotlib would read as mathematics, or leave out of a legend."""
    shown = "\u2060" if text.startswith("_") else ""  # legends omit labels that start with "_"
    return shown + text.replace("$", r"\$")


def folded(name: str) -> str:
    """Fold a name in a legend, so that the figure keeps its width."""
    return plain(textwrap.fill(name, 40, break_on_hyphens=False))


def save_figure(figure, path: str | Path) -> None:
    """Write the figure in the format of the name's suffix."""
    path = Path(path)
    with atomic(path, overwrite=True) as part:
        figure.savefig(part, format=path.suffix[1:].lower(), dpi=200)


def as_svg(figure, title: str) -> str:
    """Return the figure as an `<svg>` element; a browser shows the title under the pointer."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Title": title})
    text = file.getvalue()
    # matplotlib numbers the groups of every figure from 1, and refers to none of them
    return re.sub(r' id="[a-z0-9A-Z]+_\d+"', "", text[text.index("<svg") :])


def heat_maps(maps: Matrices, limit: float | None = None):
    """Draw a square for each matrix, on a common color scale, white at 0 and safe for the color-blind.

    Row and column 0 of an untied `[CLS]` are drawn apart and enlarged. Matrices of a few cells have their numbers.
    `limit` is the end of the scale, by default that of `maps`.
    """
    values, limit = maps.values.numpy(), limit or maps.limit
    numbered = values[0].size <= 4
    size, columns = (1.3, 8) if numbered else (2.8, 4)  # of a square with its title, in inches
    columns = min(len(values), columns)
    rows = math.ceil(len(values) / columns)
    figure = new_figure(size * columns + 1, size * rows + 0.9, maps.title)
    squares = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for square in squares[len(values) :]:
        square.set_axis_off()
    for square, matrix, name in zip(squares, values, maps.names):
        image = _heat_map(square, matrix, limit, maps.reset)
        square.set_title(plain(name), fontsize=10)
        if numbered:
            _write_numbers(square, matrix, limit)
    figure.colorbar(image, ax=list(squares), label=maps.label, extend="both")
    figure.supxlabel(maps.axes[0])
    figure.supylabel(maps.axes[1])
    return figure


def _heat_map(square, values: np.ndarray, limit: float, reset: bool):
    """Draw one matrix, `(n, m)`. Row and column 0 of an untied `[CLS]` are `thick` positions thick, before a gap."""
    if reset:
        thick = max(1, len(values) // 16)
        ticks = range(0, len(values), max(1, len(values) // 4))[1:]
        places, labels = [(thick - 1) / 2, *(thick + tick for tick in ticks)], ["[CLS]", *ticks]
        square.set_xticks(places, labels)
        square.set_yticks(places, labels)
        for axis in (0, 1):
            gapped = np.insert(values, 1, np.nan, axis)
            values = np.repeat(gapped, [thick] + [1] * (gapped.shape[axis] - 1), axis)
    return square.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")


def _write_numbers(square, values: np.ndarray, limit: float) -> None:
    """Write the value in each cell."""
    square.set(xticks=range(values.shape[1]), yticks=range(values.shape[0]))
    for (query, key), value in np.ndenumerate(values):
        shade = "white" if abs(value) > 0.6 * limit else "black"
        square.text(key, query, f"{value + 0.0:.2g}", ha="center", va="center", fontsize=7, color=shade)
