"""Say in lines to print what became of the rows of a task."""

from collections.abc import Iterator

from tupe.data.glue.prepare import Content


def lines(content: Content) -> Iterator[str]:
    """A line for each file, and one more for each reason why rows were dropped or emptied."""
    for split, rows in content.splits.items():
        counts = f"{rows.read:,} rows read, {rows.kept:,} kept"
        other = f", {rows.other_split:,} of another split" if rows.other_split else ""
        yield f"{content.task:<6} {split:<6} {counts}{other}"
        for what in ("dropped", "empty"):
            for reason, number in getattr(rows, what).items():
                yield f"{'':<13} {number:,} {what}: {reason}"
        if rows.first:
            yield f"{'':<13} first: {rows.first}"
