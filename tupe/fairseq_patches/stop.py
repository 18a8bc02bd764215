"""Stopping and saving: SIGINT, SIGTERM and SIGUSR1 finish the update, save and end the run, on all processes at once.

The exit status is 128 + the signal's number, as a shell reports it. A second signal ends the process at once,
even one that waits for others for ever, because a thread listens.
"""

import logging
import math
import os
import signal
import sys
import threading
import time

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from tupe.fairseq_patches.patching import patches, wrap
from tupe.fairseq_patches.resume import trainer_in_scope
from tupe.fairseq_patches.scope import before_training

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
#: Seconds in which signals count as one: a launcher hands on what the terminal or the scheduler sent as well.
TOGETHER = 2.0


class Listener:
    """Remembers the first signal while training goes on."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict | None = None

    def install(self) -> None:
        """Begins to listen, in the main thread; elsewhere signals stay what they are."""
        if self._before is not None or threading.current_thread() is not threading.main_thread():
            return
        ear, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        self._wakeup = signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        threading.Thread(target=self._listen, args=(ear,), daemon=True).start()

    def restore(self) -> None:
        """Gives the signals back."""
        if self._before is not None:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup)
            os.close(self._mouth)
            self.received = self._before = None

    def _listen(self, ear: int) -> None:
        first = math.inf
        while number := os.read(ear, 1):
            if number[0] not in SIGNALS:
                continue
            if time.monotonic() > first + TOGETHER:
                os._exit(128 + number[0])
            if self.received is None:
                self.received, first = number[0], time.monotonic()
                logger.warning(f"{signal.Signals(self.received).name}: saving after this update; again to end at once")
        os.close(ear)


listener = Listener()


def wishes(trainer: Trainer) -> list[float]:
    """For each of `SIGNALS` whether this process got it, and whether it is time to save."""
    minutes = getattr(trainer.cfg.model, "save_interval_minutes", 0)
    due = (
        minutes > 0
        and trainer.is_data_parallel_master
        and time.monotonic() > getattr(trainer, "saved_at", math.inf) + 60 * minutes
    )
    return [*(float(listener.received == number) for number in SIGNALS), float(due)]


def agreed(trainer: Trainer) -> tuple[int | None, bool]:
    """The signal to stop by, or None; and whether to save."""
    *signals, due = trainer.agreed if trainer.data_parallel_world_size > 1 else wishes(trainer)
    return next((number for number, wished in zip(SIGNALS, signals) if wished), None), bool(due)


@patches(checkpoint_utils, "save_checkpoint", "cfg trainer epoch_itr val_loss", only_for=trainer_in_scope)
def when_saved(original):
    """From every save the minutes are counted anew."""

    def save_checkpoint(cfg, trainer, *args, **kwargs):
        saved = original(cfg, trainer, *args, **kwargs)
        trainer.saved_at = time.monotonic()
        return saved

    return save_checkpoint


@before_training
def the_loop(cfg, task, model):
    """fairseq's loop over an epoch, and what it does after an update: whoever trains imported them, not we."""
    loop = sys.modules.get("fairseq_cli.train")
    if loop is not None:
        wrap(loop, "train", "cfg trainer task epoch_itr", listens_or_is_finished, only_for=trainer_in_scope)
        wrap(loop, "validate_and_save", "cfg trainer task epoch_itr", saves_and_stops, only_for=trainer_in_scope)


def listens_or_is_finished(original):
    """A run started again after its last update otherwise makes one more and writes it over the checkpoint."""

    def train(cfg, trainer, task, epoch_itr):
        if 0 < cfg.optimization.max_update <= trainer.get_num_updates():
            logger.info(f"nothing to do: {trainer.get_num_updates()} of {cfg.optimization.max_update} updates are done")
            return [None], True
        listener.install()
        trainer.agreed = [0.0] * (len(SIGNALS) + 1)
        trainer.saved_at = getattr(trainer, "saved_at", time.monotonic())
        goes_on = False
        try:
            losses, should_stop = original(cfg, trainer, task, epoch_itr)
            goes_on = not should_stop and epoch_itr.next_epoch_idx <= (cfg.optimization.max_epoch or math.inf)
            return losses, should_stop
        finally:
            if not goes_on:
                listener.restore()

    return train


def saves_and_stops(original):
    """`model.save_interval_minutes`, and the end by a signal: first saved, then validated if that was due anyway."""

    def validate_and_save(cfg, trainer, task, epoch_itr, *args, **kwargs):
        def save():
            checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)

        stop, due = agreed(trainer)
        if stop is not None or due:
            save()
        trainer.save_when_stopped = save if stop is None else None
        losses, should_stop = original(cfg, trainer, task, epoch_itr, *args, **kwargs)
        if trainer.save_when_stopped is not None or should_stop:
            return losses, should_stop
        stop = agreed(trainer)[0]
        if trainer.data_parallel_world_size > 1:
            torch.distributed.barrier(trainer.data_parallel_process_group)  # nobody ends before all is written
        last = os.path.join(cfg.checkpoint.save_dir, "checkpoint_last.pt")
        there = not cfg.checkpoint.no_save and not cfg.checkpoint.no_last_checkpoints
        logger.info(
            f"stopped by {signal.Signals(stop).name} after update {trainer.get_num_updates()}: "
            + (f"the same command goes on from {last}" if there else "nothing was saved, as the configuration says")
        )
        raise SystemExit(128 + stop)

    return validate_and_save


def save_if_stopped(trainer: Trainer) -> None:
    """Save at once what was learnt, when a signal came in a long validation."""
    save = getattr(trainer, "save_when_stopped", None)
    if save is not None and agreed(trainer)[0] is not None:
        trainer.save_when_stopped = None
        save()
