"""Plot all systems: validation loss against updates, also of short runs, and fine-tuned scores against the loss.

Each function returns whether there was something to draw, and raises `UserError` without matplotlib.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tupe.analysis.figure import colour, dashes, marker, new_figure, save_figure
from tupe.experiments.study.tables import Results


def plot_curves(results: Results, output: Path) -> bool:
    """Draw a line for each system, a band from the lowest to the highest seed, and the baseline's final loss.

    The legend is in the order of final losses.
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
        losses = [[curve[update] for curve in curves] for update in updates]
        label = f"{results.design.label(name)}, {len(finals)} seed{'s' if len(finals) > 1 else ''}"
        lines += _line(ax, number, label, updates, losses)
    baseline = results.losses(results.design.baseline)
    if baseline:
        ax.axhline(np.mean(baseline), color="0.4", linewidth=0.8, linestyle=":")
    ax.set(xlabel="updates", ylabel="validation loss (bits a masked token)", xlim=(0, results.design.updates))
    lines.sort(key=lambda line: -line.get_ydata()[-1])  # as they lie above one another
    return _finish(figure, output, handles=lines)


def plot_starts(results: Results, output: Path) -> bool:
    """Draw the loss of each short run against its updates, with those that its start cost, in percent of a whole run.

    A band goes from the lowest to the highest seed; dotted lines are the losses of whole runs.
    """
    design = results.design
    if not any(results.shorts(name, updates) for name in design.started for updates in design.short):
        return False
    figure = new_figure(9, 5)
    ax = figure.subplots()
    for number, name in enumerate(design.started):
        found = {updates: losses for updates in design.short if (losses := results.losses(name, updates))}
        if not found:
            continue
        cost = np.mean(results.start_cost(name) or [0])
        at = [100 * (updates + cost) / design.updates for updates in found]
        _line(ax, number, design.label(name), at, found.values(), marker=marker(number), markersize=4)
    for number, name in enumerate(name for name in design.systems if results.finals(name)):
        whole = np.mean(results.losses(name))
        ax.axhline(whole, color="0.4", linewidth=0.8, linestyle=":")
        label, place = f"{design.label(name)}, {design.updates:,} updates", (0.01 + 0.2 * number, whole)  # side by side
        ax.annotate(label, place, (0, 2), ax.get_yaxis_transform(), "offset points", fontsize=7, color="0.3")
    ax.set(xlabel=f"% of {design.updates:,} updates, the start's cost among them")
    ax.set_ylabel("validation loss (bits a masked token)")
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=-0.05)
    ticks = [0, *(100 * updates / design.updates for updates in design.short[1:])]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    return _finish(figure, output)


def plot_longer(results: Results, output: Path) -> bool:
    """Draw the loss of the same masked tokens in windows of growing length; a band goes over the seeds.

    A model whose positions end with a table slides windows of its own length over the text: its line is level. The
    legend is in the order of the last losses.
    """
    design = results.design
    figure = new_figure(9, 5)
    ax, lines = figure.subplots(), []
    for number, name in enumerate(design.systems):
        found = [record.loss_by_length["none"] for record in results.finals(name).values() if record.loss_by_length]
        if not found:
            continue
        losses = np.array([[of.get(str(n), [*of.values()][-1]).bits for n in design.lengths] for of in found])
        style = {"marker": marker(number), "markersize": 4, "linewidth": 1.5}
        lines += _line(ax, number, design.label(name), design.lengths, losses.T, **style)
    if not lines:
        return False
    ax.set_xscale("log", base=2)
    ax.set_xticks(design.lengths, [str(n) for n in design.lengths])
    ax.set(xlabel="positions of a window", ylabel="loss (bits a masked token)")
    lines.sort(key=lambda line: -line.get_ydata()[-1])  # as they lie above one another
    return _finish(figure, output, handles=lines)


def plot_scores(results: Results, output: Path) -> bool:
    """Draw the fine-tuned checkpoints for each column of scores; checkpoints before the end are hollow."""
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
    return _finish(figure, output)


def _line(ax, number: int, label: str, x: Iterable[float], losses: Iterable[Sequence[float]], **style: object) -> list:
    """Draw the mean of the `losses` at each `x`, those of all seeds, and a band from the lowest to the highest."""
    low, mean, high = ([of(some) for some in losses] for of in (min, np.mean, max))
    ax.fill_between(x, low, high, color=colour(number), alpha=0.2, linewidth=0)
    style = {"color": colour(number), "linestyle": dashes(number), "linewidth": 1.2, **style}
    return ax.plot(x, mean, label=label, **style)


def _finish(figure, output: Path, **legend: object) -> bool:
    for ax in figure.axes:
        ax.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, **legend)
    save_figure(figure, output)
    return True
