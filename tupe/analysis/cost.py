"""Draw the time that position encodings cost, as `benchmarks/model.py --output` measured it (DIET, table 1)."""

import math
from pathlib import Path
from typing import Any

from tupe.analysis.figure import colour, new_figure, plain, save_figure
from tupe.errors import UserError
from tupe.files import read_json


def read_costs(path: str | Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the conditions of the measurement, and a record for each size, mode and model.

    A record's `time_over_first` is a model's time over that of the first of its size and mode: the median with its
    quartiles, `[lower, median, upper]`. Its `tokens_per_second` are those of one device.

    Raises:
        UserError: if the file holds anything else.
    """
    content = read_json(Path(path), "benchmarks/model.py")
    try:
        records = [{name: str(record[name]) for name in ("size", "mode", "rival")} for record in content["records"]]
        for record, measured in zip(records, content["records"]):
            record["time_over_first"] = [float(ratio) for ratio in measured["time_over_first"]]
            record["tokens_per_second"] = float(measured["tokens_per_second"])
            if len(record["time_over_first"]) != 3 or not 0 < record["tokens_per_second"] < math.inf:
                raise ValueError
        if not records:
            raise ValueError
        return str(content["run"]), records
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is no model.json of benchmarks/model.py: give what its --output wrote.") from None


def cost_rows(records: list[dict[str, Any]]) -> list[list[str]]:
    """Tabulate median and quartiles of the records: a row for each model, a column for each size and mode."""
    groups = list(dict.fromkeys((record["size"], record["mode"]) for record in records))
    rows = {record["rival"]: [""] * len(groups) for record in records}
    for record in records:
        cell = "{1:.2f} ({0:.2f}-{2:.2f})".format(*record["time_over_first"])
        rows[record["rival"]][groups.index((record["size"], record["mode"]))] = cell
    return [["model", *map(" ".join, groups)], *([rival, *cells] for rival, cells in rows.items())]


def plot_costs(run: str, records: list[dict[str, Any]], output: str | Path) -> None:
    """Draw a group of bars for each size and mode: time over the first model's, with quartiles; see `read_costs`."""
    groups = list(dict.fromkeys((record["size"], record["mode"]) for record in records))
    bars = len({record["rival"] for record in records})
    figure = new_figure(max(4.0, max(3.2, 0.45 * bars) * len(groups)), 4)
    squares = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    for square, group in zip(squares, groups):
        shown = [record for record in records if (record["size"], record["mode"]) == group]
        low, middle, high = zip(*(record["time_over_first"] for record in shown))
        errors = [[m - a for m, a in zip(middle, low)], [b - m for m, b in zip(middle, high)]]
        square.bar(range(len(shown)), middle, yerr=errors, color=[colour(n) for n in range(len(shown))], capsize=3)
        square.bar_label(square.containers[-1], [f"{m:.2f}" for m in middle], padding=2, fontsize=8)
        square.set_xticks(range(len(shown)), [plain(record["rival"]) for record in shown], rotation=40, ha="right")
        square.axhline(1, color="0.4", linewidth=0.8)
        square.margins(y=0.1)  # for the highest bar's number
        square.set_title(plain(" ".join(group)), fontsize=10)
    squares[0].set_ylabel(plain(f"time over {records[0]['rival']}'s"))
    figure.suptitle(plain(run), fontsize=7, wrap=True)
    save_figure(figure, output)
