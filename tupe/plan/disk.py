"""Tell how much disk space the checkpoints of a training need, and refuse a training that has less."""

import shutil
from pathlib import Path

from omegaconf import DictConfig
from torch import nn

from tupe.errors import UserError
from tupe.plan.check import Launch
from tupe.plan.estimate import short

_BYTES_OF_A_TENSOR = 400  # beside its numbers: names, alignment and directory of the zip
_BYTES_OF_A_CHECKPOINT = 20_000  # beside its tensors: configuration and meters


def disk(cfg: DictConfig, launch: Launch, updates: int, epoch: int, model: nn.Module) -> str:
    """Return a line about the most disk space that the checkpoints of `model` take at any time.

    Raises:
        UserError: if there is too little space.
    """
    number, size = _number_of_checkpoints(cfg.checkpoint, updates, epoch), _size_of_checkpoint(cfg, model)
    folder = Path(cfg.checkpoint.save_dir)
    line = f"checkpoints in {folder}: at most {number} of {short(size)}B, {short(number * size)}B"
    if not launch.here:
        return line
    there = sum(path.stat().st_size for path in folder.glob("checkpoint*.pt"))
    exists = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(exists).free
    if number * size > free + there:
        raise UserError(
            f"{number} checkpoints of {short(size)}B need {short(number * size)}B, but {exists} has "
            f"{short(free)}B free: set checkpoint.save_dir to another disk, or keep fewer "
            "(checkpoint.keep_interval_updates, checkpoint.keep_interval_updates_pattern, checkpoint.keep_last_epochs)."
        )
    return f"{line}; {short(free)}B free"


def _number_of_checkpoints(checkpoint: DictConfig, updates: int, epoch: int) -> int:
    """Return the greatest number of checkpoints that exist at once."""
    if checkpoint.no_save:
        return 0
    pattern, keep = checkpoint.keep_interval_updates_pattern, checkpoint.keep_interval_updates
    by_updates = updates // checkpoint.save_interval_updates if checkpoint.save_interval_updates > 0 else 0
    by_epochs = 0 if checkpoint.no_epoch_checkpoints else updates // epoch // checkpoint.save_interval
    number, one_more = 3, 0  # the last, the best, and the copy that takes the place of one of them
    for written, limit in ((by_updates, keep), (by_epochs, checkpoint.keep_last_epochs)):
        if 0 < limit < written:  # as fairseq: -1 and 0 keep all
            number, one_more = number + limit, 1  # the newest, before the oldest is removed
        else:
            number += written
    if pattern > 0 and keep > 0:
        number += updates // pattern
    return number + one_more + max(checkpoint.keep_best_checkpoints, 0)


def _size_of_checkpoint(cfg: DictConfig, model: nn.Module) -> int:
    """Return the bytes of a checkpoint of `model` with its optimizer's state, an upper bound."""
    rounded = any(cfg.common[half] and not cfg.common[f"memory_efficient_{half}"] for half in ("fp16", "bf16"))
    state = 16 if rounded else 12  # bytes: a parameter, Adam's two moments, and the parameter before it was rounded
    shapes = [p.numel() for p in model.parameters()]
    return sum(shapes) * state + len(shapes) * 3 * _BYTES_OF_A_TENSOR + _BYTES_OF_A_CHECKPOINT
