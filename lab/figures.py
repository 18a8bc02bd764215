"""Draw the figures of a study, and the scores of sweeps against updates of pre-training (TUPE, figure 5).

The functions for a study return whether there was something to draw.
Example: python -m lab.figures scores.svg MNLI-m TUPE-R=runs/a TUPE-R=runs/b BERT-A=runs/c
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lab.tables import Results
from tupe.analysis.figure import color_of, dashes, folded, marker, new_figure, save_figure
from tupe.finetune.table import Row, read_sweep, shown


def plot_curves(results: Results, output: Path) -> bool:
    """Draw a line for each system, a band from the lowest to the highest seed, and the baseline's final loss."""
    figure = new_figure(9, 5)
    ax, lines = figure.subplots(), []
    for number, name in enumerate(results.design.systems):
        curves = [dict(map(tuple, record.curve)) for record in results.finals(name).values()]
        if not curves:
            continue
        updates = [update for update in curves[0] if all(update in curve for curve in curves)]
        losses = [[curve[update] for curve in curves] for update in updates]
        label = f"{results.design.label(name)}, {len(curves)} seed{'s' if len(curves) > 1 else ''}"
        lines += _line(ax, number, label, updates, losses)
    baseline = results.losses(results.design.baseline)
    if baseline:
        ax.axhline(np.mean(baseline), color="0.4", linewidth=0.8, linestyle=":")
    ax.set(xlabel="updates", ylabel="validation loss (bits per masked token)", xlim=(0, results.design.updates))
    return _finish(figure, output, lines)


def plot_starts(results: Results, output: Path) -> bool:
    """Draw the loss of each short run against its updates plus the cost of its start, in percent of a whole run.

    A band goes from the lowest to the highest seed; dotted lines are the losses of whole runs.
    """
    design = results.design
    figure = new_figure(9, 5)
    ax, lines = figure.subplots(), []
    for number, name in enumerate(design.started):
        found = {updates: losses for updates in design.short if (losses := results.losses(name, updates))}
        if not found:
            continue
        cost = np.mean(results.start_cost(name) or [0])
        at = [100 * (updates + cost) / design.updates for updates in found]
        lines += _line(ax, number, design.label(name), at, found.values(), marker=marker(number), markersize=4)
    for number, name in enumerate(results.trained):
        whole = np.mean(results.losses(name))
        ax.axhline(whole, color="0.4", linewidth=0.8, linestyle=":")
        label, place = f"{design.label(name)}, {design.updates:,} updates", (0.01 + 0.2 * number, whole)  # side by side
        ax.annotate(label, place, (0, 2), ax.get_yaxis_transform(), "offset points", fontsize=7, color="0.3")
    ax.set(xlabel=f"% of {design.updates:,} updates, including the cost of the start")
    ax.set_ylabel("validation loss (bits per masked token)")
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(left=-0.05)
    ticks = [0, *(100 * updates / design.updates for updates in design.short[1:])]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    return _finish(figure, output, lines, in_order=False)


def plot_longer(results: Results, output: Path) -> bool:
    """Draw the loss of the same masked tokens in windows of growing length; a band goes over the seeds.

    A model whose positions end with a table slides windows of its own length over the text: its line is level.
    """
    design = results.design
    figure = new_figure(9, 5)
    ax, lines = figure.subplots(), []
    for number, name in enumerate(design.systems):
        found = [record.loss_by_length["none"] for record in results.finals(name).values() if record.loss_by_length]
        if not found:
            continue
        losses = np.array([[of.get(str(n), [*of.values()][-1])["bits"] for n in design.lengths] for of in found])
        style = {"marker": marker(number), "markersize": 4, "linewidth": 1.5}
        lines += _line(ax, number, design.label(name), design.lengths, losses.T, **style)
    ax.set_xscale("log", base=2)
    ax.set_xticks(design.lengths, [str(n) for n in design.lengths])
    ax.set(xlabel="positions of a window", ylabel="loss (bits per masked token)")
    return _finish(figure, output, lines)


def plot_scores(results: Results, output: Path) -> bool:
    """Draw the fine-tuned checkpoints for each column of scores; checkpoints before the end are hollow."""
    figure, points = new_figure(3 * len(results.columns) + 2.4, 3.4), []
    for ax, column in zip(figure.subplots(1, max(1, len(results.columns)), squeeze=False)[0], results.columns):
        for number, name in enumerate(results.design.systems):
            for at, face in (("mid", "none"), ("end", color_of(number))):
                found = results.losses_and_scores(name, column, at)
                label = results.design.label(name) if found and at == "end" and ax is figure.axes[0] else None
                style = {"marker": marker(number), "s": 28, "edgecolors": color_of(number)}
                ax.scatter(*(zip(*found) if found else ((), ())), facecolors=face, label=label, **style)
                points += found
        ax.set(title=f"{column.name}, {column.metric}", xlabel="validation loss (bits)")
    return _finish(figure, output, points, in_order=False)


def _line(ax, number: int, label: str, x: Iterable[float], losses: Iterable[Sequence[float]], **style: object) -> list:
    """Draw the mean of the `losses` of all seeds at each `x`, and a band from the lowest to the highest."""
    low, mean, high = ([of(some) for some in losses] for of in (min, np.mean, max))
    ax.fill_between(x, low, high, color=color_of(number), alpha=0.2, linewidth=0)
    style = {"color": color_of(number), "linestyle": dashes(number), "linewidth": 1.2, **style}
    return ax.plot(x, mean, label=label, **style)


def _finish(figure, output: Path, drawn: list, in_order: bool = True) -> bool:
    """Save the figure if something was drawn. The legend is in the order of the lines' ends, or of drawing."""
    for ax in figure.axes:
        ax.grid(alpha=0.3)
    legend = {"handles": sorted(drawn, key=lambda line: -line.get_ydata()[-1])} if in_order else {}
    figure.legend(loc="outside right upper", fontsize=8, **legend)
    if drawn:
        save_figure(figure, output)
    return bool(drawn)


def plot_sweeps(output: str, column: str, *sweeps: str) -> None:
    """Draw a column of GLUE's table, or the `average` of the papers, against updates of pre-training.

    `sweeps` are `LABEL=FOLDER`, with a line for each label.
    """
    rows: dict[str, list[Row]] = {}
    for label, _, folder in (sweep.partition("=") for sweep in sweeps):
        rows.setdefault(label, []).append(read_sweep(Path(folder)))
    averaged = [one for one in shown([row for found in rows.values() for row in found]) if one.averaged]
    figure = new_figure(5.5, 3.8)
    ax = figure.subplots()
    for number, (label, found) in enumerate(rows.items()):
        scores = [
            (row.updates, row.average(averaged) if column == "average" else row.cells[column].score) for row in found
        ]
        ax.plot(*zip(*sorted(scores)), color=color_of(number), marker=marker(number), label=folded(label))
    ax.set(xlabel="updates of pre-training", ylabel=f"{column} (percent)")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.grid(alpha=0.3)
    ax.legend()
    save_figure(figure, Path(output))


if __name__ == "__main__":
    plot_sweeps(*sys.argv[1:])
