"""Figures without a screen, saved as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Union

from tupe.errors import UserError
from tupe.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of `width` x `height` inches. Raises `UserError` if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("figures need matplotlib: pip install '.[plot]'.") from None
    return Figure((width, height), layout="constrained")


def save_figure(figure: Figure, path: Union[str, Path]) -> None:
    """Writes the figure in the format of the name's ending. Raises `UserError` for one that there is not."""
    path = Path(path)
    formats = figure.canvas.get_supported_filetypes()
    kind = path.suffix[1:].lower()
    if kind not in formats:
        raise UserError(f"{path} does not end with a format of figures: use one of {', '.join(sorted(formats))}.")
    with atomic(path) as unfinished:
        figure.savefig(unfinished, format=kind, dpi=150)
