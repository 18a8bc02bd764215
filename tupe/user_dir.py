"""The folder that fairseq's --user-dir takes: this package, or a user's own that imports it."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from tupe.errors import UserError

#: Names a folder for the commands of `tupe` and for the scripts, as --user-dir does for fairseq's.
VARIABLE = "TUPE_USER_DIR"


def user_dir() -> Path:
    """Raises `UserError` if the environment names a folder that is no package of Python."""
    own = os.environ.get(VARIABLE)
    if not own:
        return Path(__file__).resolve().parent
    folder = Path(own).resolve()
    if not (folder / "__init__.py").is_file():
        raise UserError(
            f"{VARIABLE} is {own}, which has no __init__.py: give the folder of a package, as to --user-dir"
        )
    return folder


def import_own() -> None:
    """Imports the folder that the environment names, if it names one, so that its terms are registered."""
    if os.environ.get(VARIABLE):
        from fairseq.utils import import_user_module

        import_user_module(Namespace(user_dir=str(user_dir())))
