"""Arguments `[LABEL=]PATH`: each of the things that are compared has its own name."""

from __future__ import annotations

from pathlib import Path

from tupe.errors import UserError


def split_label(argument: str) -> tuple[str, Path]:
    """The label, empty if there is none, and the path."""
    plain = "=" not in argument or Path(argument).exists()
    label, path = ("", argument) if plain else argument.split("=", 1)
    return label, Path(path)


def check_names(names: list[str]) -> None:
    """Raises a `UserError` if a name is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two are called '{name}': give each its own name, as in LABEL=PATH.")
