"""Findings of an examination, as one line for a reader and as facts for a bug report."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


class Status(enum.StrEnum):
    """How much a finding matters: `FAILED` makes the exit status 1."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"


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


def ok(name: str, text: str, **facts: Any) -> Finding:
    """Return a finding that all is well."""
    return Finding(name, Status.OK, text, facts)


def note(name: str, text: str, **facts: Any) -> Finding:
    """Return a finding that is neither good nor bad, such as what was left out."""
    return Finding(name, Status.NOTE, text, facts)


def warning(name: str, text: str, **facts: Any) -> Finding:
    """Return a finding that costs something, but not the numbers."""
    return Finding(name, Status.WARNING, text, facts)


def failed(name: str, text: str, **facts: Any) -> Finding:
    """Return a finding that something does not work."""
    return Finding(name, Status.FAILED, text, facts)
