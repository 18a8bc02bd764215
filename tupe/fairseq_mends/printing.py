"""A `UserError` that ends a program is printed as its sentence, without a traceback."""

from __future__ import annotations

import sys

import hydra._internal.utils
from hydra.core.utils import JobReturn
from torch.multiprocessing import ProcessRaisedException

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends

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


def _is_printed(name: str) -> bool:
    return name == "HYDRA_FULL_ERROR" and sentence(sys.exc_info()[1]) is not None


@mends(hydra._internal.utils, "_is_env_set", "name", only_for=_is_printed)
def raised_by_hydra(original):
    """Hydra prints errors itself, with advice on its stack trace, unless it is told to raise them."""
    return lambda name: True


_return_value = vars(JobReturn).get("return_value")


def _raise_or_return(job: JobReturn) -> object:
    """What `JobReturn.return_value` does, but for a `UserError` it does not write the overrides to the screen first."""
    if sentence(job._return_value) is not None:
        raise job._return_value
    return _return_value.fget(job)


if isinstance(_return_value, property):  # Hydra 1.0 has a field, and raises at once
    JobReturn.return_value = _return_value.getter(_raise_or_return)
