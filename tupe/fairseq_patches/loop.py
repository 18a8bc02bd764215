"""fairseq's loop over a run: it begins and resumes as asked, stops on signals, saves, and validates what is due.

SIGINT, SIGTERM and SIGUSR1 finish the update, save and end the run, on all processes at once. The exit status is 128
+ the signal's number, as a shell reports it. A second signal ends the process at once.
"""

import logging
import math
import os
import signal
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from torch.utils.data._utils import signal_handling

from tupe.fairseq_patches.checkpoints import LAST
from tupe.fairseq_patches.patching import wrap
from tupe.fairseq_patches.scope import in_scope
from tupe.util import UserError

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
#: Seconds in which signals count as one: torchrun and SLURM send what each process has received as well.
TOGETHER = 2.0


class Listener:
    """Remembers the first signal while training goes on; a later one has its usual effect."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict | None = None

    def install(self) -> None:
        """Begin to listen, in the main thread; elsewhere signals stay what they are."""
        if self._before is not None or threading.current_thread() is not threading.main_thread():
            return
        self._process = os.getpid()
        self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._of_workers = of_workers = signal_handling._set_worker_signal_handlers
        signal_handling._set_worker_signal_handlers = lambda: (of_workers(), end_by_parent())

    def restore(self) -> None:
        """Give the signals back."""
        if self._before is not None:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal_handling._set_worker_signal_handlers = self._of_workers
            self.received = self._before = None

    def _handle(self, number: int, _: object) -> None:
        if os.getpid() != self._process:  # a worker, whose parent saves
            if number == signal.SIGTERM:
                os._exit(0)
        elif self.received is None:
            self.received, self._first = number, time.monotonic()
            said = f"{signal.Signals(number).name}: saving after this update; again to end at once\n"
            os.write(sys.__stderr__.fileno(), said.encode())  # a log may be in the middle of a line
        elif time.monotonic() > self._first + TOGETHER:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def end_by_parent() -> None:
    """Let SIGTERM end a worker that loads data if its training sends it, and not if a scheduler sends it to all.

    Without its workers a training could not finish the update, or the validation that is due.
    """
    if not hasattr(signal, "sigwaitinfo"):  # macOS
        return

    def wait() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
            pass
        os._exit(0)

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait, daemon=True).start()


listener = Listener()


def local_requests(trainer: Trainer) -> list[float]:
    """Return for each of `SIGNALS` whether this process received it, and whether it is time to save."""
    minutes = getattr(trainer.cfg.model, "save_interval_minutes", 0)
    due = (
        minutes > 0
        and trainer.is_data_parallel_master
        and time.monotonic() > getattr(trainer, "saved_at", math.inf) + 60 * minutes
    )
    return [*(float(listener.received == number) for number in SIGNALS), float(due)]


def requests(trainer: Trainer) -> tuple[int | None, bool]:
    """Return the signal that stops all processes, or None; and whether to save."""
    *signals, due = trainer.requested if trainer.data_parallel_world_size > 1 else local_requests(trainer)
    return next((number for number, received in zip(SIGNALS, signals) if received), None), bool(due)


def refuse_missing_checkpoint(cfg) -> None:
    """Raise a `UserError` if the checkpoint to begin from does not exist: fairseq would train from nothing."""
    begun = os.path.exists(os.path.join(cfg.save_dir, LAST))
    named = cfg.restore_file if cfg.restore_file != LAST else None if begun else cfg.continue_once
    if named is not None and not checkpoint_utils.PathManager.exists(named):
        raise UserError(f"There is no checkpoint {named} to begin from.")


def begin(trainer: Trainer, state: dict[str, Any] | None) -> None:
    """Do what a run that was killed did not: the validation where it saved, and the end of its epoch.

    Without the validation the run would go on, or be finished, with a best checkpoint that is an earlier one, or none.
    What an epoch ended with, fairseq tells the schedule after it has saved, so that the schedule of a run that goes on
    from there would not know.

    `state` is the `extra_state` of the checkpoint that the run goes on from.
    """
    loop = sys.modules.get("fairseq_cli.train")
    if loop is None or state is None:
        return
    cfg, place, loss = trainer.cfg, state["train_iterator"], state.get("val_loss")
    ended = place.get("iterations_in_epoch") == 0  # an old checkpoint may not say
    epoch = place["epoch"] - ended
    if validation_due(trainer, state):
        logger.info("the validation at which the run was interrupted")
        then = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: ended, state_dict=lambda: dict(place))
        loss = loop.validate(cfg, trainer, trainer.task, then, cfg.dataset.valid_subset.split(","))[0]
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, then, loss)
    goes_on = trainer.get_num_updates() and not (cfg.checkpoint.reset_dataloader or cfg.checkpoint.reset_lr_scheduler)
    if ended and goes_on:
        trainer.lr_step(epoch, loss)


def validation_due(trainer: Trainer, state: dict[str, Any]) -> bool:
    """Return whether fairseq's loop would have validated where a checkpoint's `extra_state` has no validation."""
    cfg, updates = trainer.cfg, trainer.get_num_updates()  # none where only the parameters were taken
    if "val_loss" not in state or state["val_loss"] is not None or not updates or cfg.checkpoint.reset_dataloader:
        return False
    if cfg.dataset.disable_validation or updates < cfg.dataset.validate_after_updates:
        return False
    place = state["train_iterator"]
    ended = place["iterations_in_epoch"] == 0
    every = [cfg.dataset.validate_interval_updates, cfg.optimization.max_update]
    every += [] if ended else [cfg.checkpoint.save_interval_updates]
    at_end = ended and (place["epoch"] - 1) % cfg.dataset.validate_interval == 0
    return at_end or any(number > 0 and updates % number == 0 for number in every)


def patch_loop() -> None:
    """Patch fairseq's loop over an epoch, and what it does after an update, where a run begins.

    Whoever trains imported them, not this package.
    """
    loop = sys.modules.get("fairseq_cli.train")
    if loop is not None:
        for name, around in (("train", listens_or_is_finished), ("validate_and_save", saves_and_stops)):
            wrap(loop, name, "cfg trainer task epoch_itr", around, lambda cfg, trainer, *_, **__: in_scope(trainer))


def listens_or_is_finished(original):
    """Train nothing after the last update: fairseq makes one more and writes it over the checkpoint."""

    def train(cfg, trainer, task, epoch_itr):
        if 0 < cfg.optimization.max_update <= trainer.get_num_updates():
            logger.info(f"nothing to do: {trainer.get_num_updates()} of {cfg.optimization.max_update} updates are done")
            return [None], True
        listener.install()
        trainer.requested = [0.0] * (len(SIGNALS) + 1)
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

        stop, due = requests(trainer)
        if stop is not None or due:
            save()
        trainer.save_when_stopped = save if stop is None else None
        losses, should_stop = original(cfg, trainer, task, epoch_itr, *args, **kwargs)
        if trainer.save_when_stopped is not None or should_stop:
            return losses, should_stop
        stop = requests(trainer)[0]
        if trainer.data_parallel_world_size > 1:
            torch.distributed.barrier(trainer.data_parallel_process_group)  # nobody ends before all is written
        last = os.path.join(cfg.checkpoint.save_dir, LAST)
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
    if save is not None and requests(trainer)[0] is not None:
        trainer.save_when_stopped = None
        save()
