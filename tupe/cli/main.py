"""Run a command of `tupe`."""

import logging
import sys

from tupe.cli.commands import app
from tupe.util import UserError, import_own


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status: 1 after a `UserError`, 2 after a wrong argument."""
    given = sys.argv[1:] if argv is None else argv
    try:
        if given != ["user-dir"]:  # which scripts ask for before anything is imported
            import_own()
        logging.disable(logging.INFO)  # fairseq logs much
        app(given, prog_name="tupe")
    except SystemExit as end:
        return end.code
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
