"""Locate the folders that fairseq's commands take: `--user-dir`, which may be a user's own, and `--config-dir`."""

import os
from argparse import Namespace
from importlib import resources
from pathlib import Path

from tupe.errors import UserError

#: Names a folder for the commands of `tupe` and for the scripts, as --user-dir does for fairseq's.
VARIABLE = "TUPE_USER_DIR"


def user_dir() -> Path:
    """Return the folder for `--user-dir`.

    Raises:
        UserError: if the environment names a folder that is no Python package.
    """
    own = os.environ.get(VARIABLE)
    if not own:
        return Path(__file__).resolve().parent
    folder = Path(own).resolve()
    if not (folder / "__init__.py").is_file():
        raise UserError(
            f"{VARIABLE} is {own}, which has no __init__.py: give the folder of a package, as to --user-dir"
        )
    return folder


def config_dir(kind: str = "") -> Path:
    """Return the folder of the shipped configurations, or of one `kind`: `pretraining`, `finetuning`, ...

    A wheel has them in the package; in a clone, also an editable installation, they stand beside it.
    """
    return _shipped("configs", "configs") / kind


def reference_dir() -> Path:
    """Return the folder of the study's records that ship as references."""
    return _shipped("references", "docs/results/runs/cpu/final")


def _shipped(inside: str, beside: str) -> Path:
    package = Path(str(resources.files("tupe"))).resolve()
    return package / inside if (package / inside).is_dir() else package.parent / beside


def import_own() -> None:
    """Import the package that the environment names, if any, so that its terms are registered."""
    if os.environ.get(VARIABLE):
        from fairseq.utils import import_user_module

        folder = user_dir()
        try:
            import_user_module(Namespace(user_dir=str(folder)))
        except ModuleNotFoundError as error:
            raise UserError(f"{folder} imports {error.name}, which is not installed: install or rename it") from error
