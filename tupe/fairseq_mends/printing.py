"""A `UserError` that ends a program is printed as its sentence, without a traceback."""

from __future__ import annotations

import sys

from torch.multiprocessing import ProcessRaisedException

from tupe.errors import UserError

_RAISED = f"\n{UserError.__module__}.{UserError.__qualname__}: "


def sentence(error: BaseException) -> str | None:
    """The sentence of a `UserError`, also of one raised in a process that fairseq started; otherwise None."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ProcessRaisedException):  # it carries the traceback of the process as text
        return str(error).rpartition(_RAISED)[2].strip() if _RAISED in str(error) else None
    return None


def print_sentence(otherwise):
    """`sys.excepthook` that leaves every other exception to the hook `otherwise`. Python then exits with 1."""

    def excepthook(kind, error, traceback):
        found = sentence(error)
        if found is None:
            otherwise(kind, error, traceback)
        else:
            sys.stdout.flush()  # the log is there: the sentence comes last
            print(f"error: {found}", file=sys.stderr)

    return excepthook


sys.excepthook = print_sentence(sys.excepthook)
