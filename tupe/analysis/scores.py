"""Scores on a benchmark against the updates of pre-training (TUPE, figure 5)."""

from pathlib import Path
from typing import NamedTuple

from tupe.analysis.figure import colour, folded, new_figure, plain, save_figure


class ScoreCurve(NamedTuple):
    """The scores of checkpoints of one pre-training."""

    updates: tuple[int, ...]  # of each checkpoint, rising
    values: tuple[float, ...]  # the score of each, percent
    spread: tuple[float | None, ...]  # standard deviation over the seeds of each; `None` for an average or one seed
    score: str  # what it is, such as `MNLI-m` or `average of 9 columns`


def plot_scores(curves: dict[str, ScoreCurve], output: str | Path, title: str = "") -> None:
    """Draw a line for each system, with the deviation over the seeds where there is one."""
    figure = new_figure(5.5, 3.8)
    square = figure.subplots()
    for number, (name, curve) in enumerate(curves.items()):
        spread = [deviation or 0 for deviation in curve.spread]
        style = {"color": colour(number), "marker": "osD^v"[number % 5], "capsize": 3, "label": folded(name)}
        square.errorbar(curve.updates, curve.values, yerr=spread if any(spread) else None, **style)
    square.set(
        xlabel="updates of pre-training", ylabel=f"{next(iter(curves.values())).score} (percent)", title=plain(title)
    )
    square.xaxis.set_major_formatter("{x:,.0f}")
    square.grid(alpha=0.3)
    square.set_xlim(left=0)
    square.legend()
    save_figure(figure, output)
