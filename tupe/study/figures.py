"""Validation loss against updates, of all systems: mean over the seeds, and how far apart they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tupe.analysis.figure import new_figure, save_figure
from tupe.study.design import BASELINE
from tupe.study.tables import Results


def plot_curves(results: Results, output: Path) -> None:
    """Draws a line for each system, a band from the lowest to the highest seed, and the baseline's end.

    Raises:
        UserError: without matplotlib.
    """
    figure = new_figure(9, 5)
    ax = figure.subplots()
    for number, name in enumerate(results.design.systems):
        finals = list(results.finals(name).values())
        if not finals:
            continue
        updates = [update for update, _ in finals[0].curve]
        curves = [dict(record.curve) for record in finals]
        updates = [update for update in updates if all(update in curve for curve in curves)]
        losses = np.array([[curve[update] for update in updates] for curve in curves])  # (seeds, validations)
        style = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
        seeds = f"{len(finals)} seed{'s' if len(finals) > 1 else ''}"
        ax.plot(updates, losses.mean(0), linewidth=1.2, label=f"{results.design.label(name)}, {seeds}", **style)
        ax.fill_between(updates, losses.min(0), losses.max(0), color=style["color"], alpha=0.2, linewidth=0)
    baseline = results.finals(BASELINE)
    if baseline:
        end = np.mean([record.loss for record in baseline.values()])
        ax.axhline(end, color="0.4", linewidth=0.8, linestyle=":")
    ax.set(xlabel="updates", ylabel="validation loss (bits a masked token)", xlim=(0, results.design.updates))
    ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    save_figure(figure, output)
