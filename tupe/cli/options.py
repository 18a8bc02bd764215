"""Arguments and options that several commands have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from typer import Argument, Option

from tupe.util import UserError


class Labelled(NamedTuple):
    label: str  # empty if none was given
    path: Path


def split_label(argument: str) -> Labelled:
    """Split `[LABEL=]PATH`. A path that exists may have a `=` of its own."""
    plain = "=" not in argument or Path(argument).exists()
    label, _, path = ("", "", argument) if plain else argument.partition("=")
    return Labelled(label, Path(path))


def check_labels(labels: list[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"Two are called '{label}'. Give each its own label, as in LABEL=PATH.")


class Values(list):
    """The values of `A,B`."""


def listed(kind: Callable[[str], Any], help: str) -> Any:
    """Make an option whose value is `A,B`."""
    return Option("", parser=lambda text: Values(map(kind, filter(None, text.split(",")))), metavar="A,B", help=help)


CHECKPOINT = Argument(help="Checkpoint of this plugin.")
CORPUS = Argument(help="Prepared corpus, or an imported model.")
FOLDER = Argument(help="Folder to write.")
LANGUAGE = Option("en", help="Language of the text.")
NEW_FILE = Argument(help="New file.")
OVERRIDES = Argument([], metavar="key=value", help="Changes of the configuration.")
RULES = Option("squad", help="Rules by which answers are scored.")
WORKERS = Option(None, help="Processes; all cores by default.")
