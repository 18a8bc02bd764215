"""Checkpoints are written whole or not at all, and a full disk ends a run with one sentence."""

import contextlib
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import torch
from fairseq import checkpoint_utils

from tupe.errors import UserError
from tupe.fairseq_patches.patching import patches, replaced
from tupe.fairseq_patches.resume import trainer_in_scope

_FULL = (errno.ENOSPC, errno.EDQUOT)


def written_once() -> AbstractContextManager:
    """Write checkpoints in one try. On a full disk fairseq tries three times and leaves a part of the file."""
    save_otherwise, files = checkpoint_utils.torch_persistent_save, checkpoint_utils.PathManager

    def save(state, filename, async_write=False):
        if async_write or not files.supports_rename(filename):
            return save_otherwise(state, filename, async_write)
        with _whole(filename, lambda: _saved_size(state)) as unfinished, open(unfinished, "wb") as file:
            torch.save(state, file)  # an opened file: given a name, PyTorch hides the system's error

    return replaced(checkpoint_utils, "torch_persistent_save", save)


@patches(checkpoint_utils, "save_checkpoint", "cfg trainer epoch_itr val_loss", only_for=trainer_in_scope)
def copied_whole(original):
    """A run killed while `checkpoint_last.pt` is copied from the newest checkpoint otherwise leaves half a file."""
    files = checkpoint_utils.PathManager
    copy_now = files.copy

    def copy(source, target, overwrite=False):
        if not files.supports_rename(target):
            return copy_now(source, target, overwrite)
        with _whole(target, lambda: os.path.getsize(source)) as unfinished:
            copy_now(source, unfinished, overwrite=True)
        return True

    def save_checkpoint(*args, **kwargs):
        with replaced(files, "copy", staticmethod(copy)):
            return original(*args, **kwargs)

    return save_checkpoint


@contextlib.contextmanager
def _whole(target: str, size: Callable[[], int]) -> Iterator[str]:
    """Yield a temporary name beside `target`, which becomes `target` when the block ends without an exception.

    Raises:
        UserError: if the file cannot be written; on a full disk it says how many of the `size()` bytes are missing.
    """
    unfinished = f"{target}.tmp"
    try:
        yield unfinished
        os.replace(unfinished, target)
    except Exception as error:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        cause = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__  # PyTorch's writer raises an error of its own
        if cause is None:
            raise
        reason = cause.strerror
        if cause.errno in _FULL:
            needed, free = size(), shutil.disk_usage(os.path.dirname(os.path.abspath(target))).free
            reason = f"{reason}: {needed:,} bytes are needed, {free:,} are free, {max(needed - free, 0):,} are missing"
        raise UserError(
            f"{target} cannot be written ({reason}): the checkpoints before it are whole, so make room or set "
            "checkpoint.save_dir to another disk, and the same command goes on"
        ) from error


def _saved_size(state: dict) -> int:
    counter = _Counter()
    torch.save(state, counter)
    return counter.written


class _Counter(io.RawIOBase):
    """A file that keeps nothing but the number of its bytes."""

    written = 0

    def write(self, data) -> int:
        self.written += len(data)
        return len(data)
