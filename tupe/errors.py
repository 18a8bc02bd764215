"""`UserError`, for what a user can correct: one sentence that says what was wrong, where, and what to do."""

import contextlib
import re
from collections.abc import Iterator

try:  # Hydra prints these without a traceback
    from hydra.errors import CompactHydraException as _Compact
except ImportError:  # `tupe.position` and `tupe.attention` work without Hydra

    class _Compact(Exception):
        pass


def one_line(text: object) -> str:
    """Escape what would break the line or move the cursor, such as a file's name in a message."""
    text = re.sub(r"\s*\n\s*", " ", str(text).strip())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and those that it came from, the last first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def system_sentence(error: OSError) -> str:
    """Return the sentence of an error of the system: a full disk, a file that may not be read, too many open files."""
    if error.strerror is None:
        return str(error)
    if error.filename is None:
        return (
            f"a file cannot be read or written ({error.strerror}): look at the disks, and at the limits by ulimit -a."
        )
    return f"{error.filename} cannot be read or written ({error.strerror}): give another place."


class UserError(_Compact, ValueError):
    """Wrong input. The message is one sentence for the user; commands print it without a traceback and exit with 1."""


@contextlib.contextmanager
def needing(what: str, extra: str, more: str = "") -> Iterator[None]:
    """Raise a `UserError` if the block imports a package that is not there: `what` needs it, and an `extra` has it."""
    try:
        yield
    except ImportError as error:
        raise UserError(f"{what} needs {error.name}: pip install '.[{extra}]'{more}") from None
