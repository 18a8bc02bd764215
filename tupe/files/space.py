"""Say in one sentence that a disk is full: which file does not fit, and how many bytes are missing."""

import errno
import re
import shutil
from pathlib import Path

from tupe.errors import UserError, chain

_FULL = (errno.ENOSPC, errno.EDQUOT)
_RUST = re.compile(r"\(os error (\d+)\)")  # how safetensors and tokenizers name an error of the system


def is_full(error: BaseException | None) -> bool:
    """Tell whether an exception, or one that it came from, says that a disk or a quota is full."""
    for each in chain(error):
        rust = _RUST.search(str(each))
        if (rust and int(rust[1]) in _FULL) or (isinstance(each, OSError) and each.errno in _FULL):
            return True
    return False


def no_room(path: Path, size: int | None = None) -> UserError:
    """Return the error for a file of `size` bytes (None: not known) that does not fit on its disk.

    The part that was written must be removed already, or it would count as used.
    """
    free = shutil.disk_usage(path.parent).free
    if size is None:
        what = f"it needs more than the {free:,} bytes that are free"
    elif size > free:
        what = f"of its {size:,} bytes {size - free:,} do not fit"
    else:
        what = f"its {size:,} bytes are more than your quota leaves"
    return UserError(f"{path} cannot be written, as the disk is full: {what}; make room, or give another place.")
