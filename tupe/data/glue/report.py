"""Lines to print about the rows of a prepared task."""

from collections.abc import Iterator
from typing import Any

from tupe.data.glue.prepare import Content

_SHOWN = 20  # classes


def lines(content: Content) -> Iterator[str]:
    """Return a line for each file, and one more for each reason why rows were dropped or emptied."""
    for split, rows in content.splits.items():
        counts = f"{rows.read:,} rows read, {rows.kept:,} kept"
        other = f", {rows.other_split:,} of another split" if rows.other_split else ""
        yield f"{content.task:<6} {split:<6} {counts}{other}"
        for what in ("dropped", "empty"):
            for reason, number in getattr(rows, what).items():
                yield f"{'':<13} {number:,} {what}: {reason}"
        if rows.first:
            yield f"{'':<13} first: {rows.first}"
    yield from _trained_on(content)


def same_as_training(checksums: dict[str, Any]) -> Iterator[str]:
    """Warn of each split whose files hold what the training's hold."""
    for split, checksum in checksums.items():
        if split != "train" and checksum == checksums.get("train"):
            yield f"warning: the {split} data are the training data: scores on them say nothing of other texts"


def _trained_on(content: Content) -> Iterator[str]:
    return same_as_training({split: file["sha256"] for split, file in content.made_of["files"].items()})


def own_lines(content: Content) -> Iterator[str]:
    """Return a line for each file of a user's own task, with how often each class occurs."""
    for split, rows in content.splits.items():
        counts = ", ".join(f"{name} {number:,}" for name, number in list(rows.labels.items())[:_SHOWN])
        more = f", and {len(rows.labels) - _SHOWN} more" if len(rows.labels) > _SHOWN else ""
        what = "sentences" if content.description and content.description.tokens else "rows"
        yield f"{content.task} {split:<6} {rows.kept:,} {what}" + (f": {counts}{more}" if counts else "")
    classes = content.description.classes if content.description else ()
    if unseen := [name for name in classes if name not in content.splits["train"].labels]:
        yield f"warning: no training row has {', '.join(unseen)}, which --labels names"
    yield from _trained_on(content)
    if content.scale is not None and content.description is not None:
        lowest = content.description.offset
        yield f"numbers from {lowest:g} to {lowest + content.scale:g}, learnt as 0 to 1"
