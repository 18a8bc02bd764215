"""Folders and files that a training writes: those that cannot be written, and those that it would spoil."""

import os
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils, utils

from tupe.errors import UserError
from tupe.fairseq_patches.patching import patches
from tupe.files import check_replaceable

_FOLDERS = (("checkpoint", "save_dir"), ("common", "tensorboard_logdir"))


@patches(checkpoint_utils, "verify_checkpoint_directory", "save_dir")
def folder_of_checkpoints(original):
    """Called by every training, before it reads the data. fairseq says what it tried there, in a traceback."""

    def verify_checkpoint_directory(save_dir, *args, **kwargs):
        try:
            return original(save_dir, *args, **kwargs)
        except OSError as error:
            raise UserError(
                f"{os.path.abspath(save_dir)} cannot be a folder of checkpoints ({error.strerror}): set --save-dir "
                "(checkpoint.save_dir) to one that can be written"
            ) from error

    return verify_checkpoint_directory


def refuse_outputs(cfg: Any) -> None:
    """Raise a `UserError` if a run would write into prepared data, or append its log to a file that is no log.

    Args:
        cfg: by group, a dictionary or with attributes.
    """
    for group, name in _FOLDERS:
        folder = _value(cfg, group, name)
        if isinstance(folder, str) and folder:
            if _is_data(Path(folder)):
                raise UserError(f"{group}.{name} is {folder}, a folder of prepared data: name another folder.")
            if name == "tensorboard_logdir" and os.path.exists(folder) and not os.path.isdir(folder):
                raise UserError(f"{group}.{name} is {folder}, which is no folder: name another one.")
    log = _value(cfg, "common", "log_file")
    if isinstance(log, str) and log:
        _refuse_log(Path(log), _value(cfg, "task", "data"))


def _refuse_log(log: Path, data: Any) -> None:
    if not log.parent.is_dir() or log.is_dir():
        raise UserError(f"common.log_file is {log}, which cannot be written: name a file in a folder that is there.")
    if log.suffix != ".log":  # a log of an earlier run goes on
        check_replaceable(log, [Path(folder) for folder in utils.split_paths(data)] if isinstance(data, str) else [])


def _is_data(folder: Path) -> bool:
    """Tell whether a folder holds binary data or its parts: languages, splits of questions, GLUE's fields."""
    parts = any(folder.glob("dict.txt")) or (folder / "input0").is_dir()
    return any(folder.glob("*.idx")) or (parts and any(folder.glob("*/*.idx")))


def _value(cfg: Any, group: str, name: str) -> Any:
    part = cfg.get(group) if isinstance(cfg, dict) else getattr(cfg, group, None)
    return part.get(name) if isinstance(part, dict) else getattr(part, name, None)
