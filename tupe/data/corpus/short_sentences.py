"""Joins short sentences: each line of the data ends in `</s>`, and headings would be mostly that."""

from __future__ import annotations

SHORT = 16  # words


def join(lines: list[str]) -> list[str]:
    """Joins a line of fewer than `SHORT` words and the next of its document, until the line is long enough."""
    joined: list[str] = []
    words = SHORT
    for line in lines:
        if words < SHORT:
            joined[-1] += " " + line
            words += len(line.split())
        else:
            joined.append(line)
            words = len(line.split())
    return joined
