"""Plot all systems: validation loss against updates, and fine-tuned scores against validation loss."""

from pathlib import Path

import numpy as np

from tupe.analysis.figure import colour, dashes, marker, new_figure, save_figure
from tupe.experiments.study.tables import Results


def plot_curves(results: Results, output: Path) -> bool:
    """Draw a line for each system, a band from the lowest to the highest seed, and the baseline's final loss.

    The legend is in the order of final losses.

    Returns:
        Whether there was something to draw.

    Raises:
        UserError: without matplotlib.
    """
    if not any(map(results.finals, results.design.systems)):
        return False
    figure = new_figure(9, 5)
    ax, lines = figure.subplots(), []
    for number, name in enumerate(results.design.systems):
        finals = list(results.finals(name).values())
        if not finals:
            continue
        updates = [update for update, _ in finals[0].curve]
        curves = [dict(record.curve) for record in finals]
        updates = [update for update in updates if all(update in curve for curve in curves)]
        losses = np.array([[curve[update] for update in updates] for curve in curves])  # (seeds, validations)
        style = {"color": colour(number), "linestyle": dashes(number)}
        seeds = f"{len(finals)} seed{'s' if len(finals) > 1 else ''}"
        label = f"{results.design.label(name)}, {seeds}"
        lines += ax.plot(updates, losses.mean(0), linewidth=1.2, label=label, **style)
        ax.fill_between(updates, losses.min(0), losses.max(0), color=style["color"], alpha=0.2, linewidth=0)
    baseline = results.finals(results.design.baseline)
    if baseline:
        end = np.mean([record.loss for record in baseline.values()])
        ax.axhline(end, color="0.4", linewidth=0.8, linestyle=":")
    ax.set(xlabel="updates", ylabel="validation loss (bits a masked token)", xlim=(0, results.design.updates))
    ax.grid(alpha=0.3)
    lines.sort(key=lambda line: -line.get_ydata()[-1])  # as they lie above one another
    figure.legend(handles=lines, loc="outside right upper", fontsize=8)
    save_figure(figure, output)
    return True


def plot_scores(results: Results, output: Path) -> bool:
    """Draw the fine-tuned checkpoints for each column of scores; checkpoints before the end are hollow.

    Returns:
        Whether there was something to draw.

    Raises:
        UserError: without matplotlib.
    """
    points = {
        (column, name, at): results.losses_and_scores(name, column, at)
        for column in results.columns
        for name in results.design.systems
        for at in ("mid", "end")
    }
    if not any(points.values()):
        return False
    figure = new_figure(3 * len(results.columns) + 2.4, 3.4)
    for ax, column in zip(figure.subplots(1, len(results.columns), squeeze=False)[0], results.columns):
        for number, name in enumerate(results.design.systems):
            for at, face in (("mid", "none"), ("end", colour(number))):
                label = results.design.label(name) if at == "end" and column is results.columns[0] else None
                losses, scores = zip(*points[column, name, at]) if points[column, name, at] else ((), ())
                style = {"marker": marker(number), "s": 28, "edgecolors": colour(number)}
                ax.scatter(losses, scores, facecolors=face, label=label if losses else None, **style)
        ax.set(title=f"{column.name}, {column.metric}", xlabel="validation loss (bits)")
        ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8)
    save_figure(figure, output)
    return True
