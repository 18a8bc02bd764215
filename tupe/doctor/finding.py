"""Findings of an examination, as one line for a reader and as facts for a bug report."""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


class Status(enum.StrEnum):
    """How much a finding matters: `FAILED` makes the exit status 1."""

    OK = "ok"
    NOTE = "note"  # neither good nor bad, such as what was left out
    WARNING = "warning"  # costs something, but not the numbers
    FAILED = "failed"  # does not work


@dataclass(frozen=True)
class Finding:
    """What an examination found: one line."""

    name: str  # of what was examined
    status: Status
    text: str  # what was seen, and if something is wrong, what to do
    facts: dict[str, Any] = field(default_factory=dict)  # for the JSON file

    def line(self) -> str:
        return f"{self.status:<8} {self.name}: {self.text}"


Findings = Iterator[Finding]


def _maker(status: Status) -> Callable[..., Finding]:
    """Return a function of the name, the text and the facts, by their names."""
    return lambda name, text, **facts: Finding(name, status, text, facts)


ok, note, warning, failed = map(_maker, Status)
