"""Figures without a screen, saved as files; heat maps of matrices that are compared."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tupe.util import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor


#: The palette of Okabe and Ito, which colour-blind readers can tell apart; black last.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
#: They change where the colours begin again.
_DASHES, _MARKERS = ("-", "--", ":", "-."), "os^D"


class Matrices(NamedTuple):
    """Matrices of a model, which `heat_maps` draws."""

    values: Tensor  # `(number, n, m)`, queries by keys
    names: list[str]  # of each matrix
    model: str = ""  # its name
    said: Sequence[str] = ()  # about each matrix
    summary: str = ""  # about all
    reset: bool = False  # whether row and column 0 are those of an untied `[CLS]`


def colour(number: int) -> str:
    """Return the colour of the line or bar with this number, from 0."""
    return _COLOURS[number % len(_COLOURS)]


def dashes(number: int) -> str:
    """Return the dashes of the line with this number; with its colour, 28 lines differ."""
    return _DASHES[number // len(_COLOURS) % len(_DASHES)]


def marker(number: int) -> str:
    """Return the marker of the points with this number; with their colour, 28 kinds differ."""
    return _MARKERS[number // len(_COLOURS) % len(_MARKERS)]


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` x `height` inches."""
    from matplotlib.figure import Figure

    return Figure((width, height), layout="constrained")


def plain(text: str) -> str:
    """Escape what matplotlib would read as mathematics, or leave out of a legend."""
    shown = "\u2060" if text.startswith("_") else ""  # no sign, but legends leave out labels that begin with "_"
    return shown + text.replace("$", r"\$")


def folded(name: str) -> str:
    """Fold a name in a legend, so that the figure keeps its width."""
    return plain(textwrap.fill(name, 40, break_on_hyphens=False))


def save_figure(figure: Figure, path: str | Path, title: str = "") -> None:
    """Write the figure in the format that the name's ending says, below a title that is folded to its width."""
    path = Path(path)
    if title:
        lines, width = title.splitlines(), int(11 * figure.get_figwidth())
        figure.suptitle("\n".join(textwrap.fill(plain(line), width, break_on_hyphens=False) for line in lines))
    with atomic(path, overwrite=True) as part:
        figure.savefig(part, format=path.suffix[1:].lower(), dpi=200)


def heat_maps(
    values: np.ndarray,
    titles: Sequence[str],
    label: str,
    axes: tuple[str, str] = ("key position", "query position"),
    *,
    reset: bool = False,
    columns: int = 4,
    size: float = 2.8,
) -> Figure:
    """Draw a square for each matrix, on a common colour scale, white at 0 and safe for the colour-blind.

    One cell in 200 is beyond the end of the scale.

    `values` are `(number, n, m)`, and `axes` name the second and the first axis of a matrix. With `reset`, row and
    column 0 are those of an untied `[CLS]`: they are drawn apart and enlarged, and can be far from the others, so the
    scale does not count them. `size` are the inches of a square with its title.
    """
    columns = min(len(values), columns)
    rows = math.ceil(len(values) / columns)
    figure = new_figure(size * columns + 1, size * rows + 0.9)
    squares = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    limit = colour_limit(values, reset)
    for square in squares[len(values) :]:
        square.set_axis_off()
    for square, matrix, title in zip(squares, values, titles):
        image = _heat_map(square, matrix, limit, reset)
        square.set_title(title, fontsize=10)
    figure.colorbar(image, ax=list(squares), label=label, extend="both")
    figure.supxlabel(axes[0])
    figure.supylabel(axes[1])
    return figure


def colour_limit(values: np.ndarray, reset: bool = False) -> float:
    """Return the end of the colour scale of `(number, n, m)`, on both sides of 0; see `heat_maps`."""
    sizes = abs(values[:, 1:, 1:] if reset else values)
    return float(np.quantile(sizes[np.isfinite(sizes)], 0.995)) or 1.0 if np.isfinite(sizes).any() else 1.0


def _heat_map(square, values: np.ndarray, limit: float, reset: bool):
    """Draw one matrix, `(n, m)`. Row and column 0 are `strip` positions thick, with a gap, if `[CLS]` is untied."""
    queries, keys = values.shape
    style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
    if not reset:
        return square.imshow(values, **style)
    strip = max(1.0, queries / 16)
    gap = strip / 3
    left, top = -strip - gap + 0.5, -gap + 0.5  # in positions: the others start at 0.5
    image = square.imshow(values[1:, 1:], extent=(0.5, keys - 0.5, queries - 0.5, 0.5), **style)
    square.imshow(values[1:, :1], extent=(left, top, queries - 0.5, 0.5), **style)
    square.imshow(values[:1, 1:], extent=(0.5, keys - 0.5, top, left), **style)
    square.imshow(values[:1, :1], extent=(left, top, top, left), **style)
    square.set(xlim=(left, keys - 0.5), ylim=(queries - 0.5, left))
    middle = (left + top) / 2
    ticks = [tick for tick in range(0, queries, max(1, queries // 4)) if tick > 0]
    square.set_xticks([middle, *ticks], ["[CLS]", *map(str, ticks)])
    square.set_yticks([middle, *ticks], ["[CLS]", *map(str, ticks)])
    return image
