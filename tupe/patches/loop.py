"""fairseq's loop over a run: it ends where it should, saves by the clock, and validates what a killed run owes.

SIGINT, SIGTERM and SIGUSR1 finish the update, save and end the run, on all processes at once. The exit status is 128
+ the signal's number, as a shell reports it.
"""

import logging
import math
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopSignal:
    """The first signal that this process received while it listened; a second Ctrl-C ends it at once.

    Of other signals schedulers and launchers send several.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def listen(self) -> None:
        """Begin to listen, in the main thread; elsewhere signals stay what they are."""
        if not self._before and threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in SIGNALS}

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self.received, self._before = None, {}

    def _receive(self, number: int, frame: Any) -> None:
        if number == signal.SIGINT and self.received is not None:
            signal.default_int_handler(number, frame)
        self.received = self.received or number


stop_signal = StopSignal()


def local_stop_request(trainer: Trainer) -> list[float]:
    """Return for each of `SIGNALS` whether this process received it, and whether it is time to save."""
    minutes = getattr(trainer.cfg.model, "save_interval_minutes", 0)
    since = time.monotonic() - trainer.saved_at
    due = trainer.is_data_parallel_master and 0 < 60 * minutes < since
    return [float(number == stop_signal.received) for number in SIGNALS] + [float(due)]


def stop_request(trainer: Trainer) -> tuple[int | None, bool]:
    """Return the signal that stops all processes, or None; and whether to save."""
    alone = trainer.data_parallel_world_size == 1
    *signals, due = local_stop_request(trainer) if alone else trainer.requested
    received = [number for number, asks in zip(SIGNALS, signals) if asks]
    return next(iter(received), None), bool(due)


def save_or_stop(trainer: Trainer) -> None:
    """Save if it is time, or save and end the run after a signal: what is then due, the next start validates."""
    number, due = stop_request(trainer)
    if number is None and not due:
        return
    checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, trainer.batches, None)
    if number is None:
        return

    if trainer.data_parallel_world_size > 1:
        torch.distributed.barrier(trainer.data_parallel_process_group)  # nobody ends before all is written
    logger.info(
        f"stopped by {signal.Signals(number).name} after update {trainer.get_num_updates()}: the same command resumes"
    )
    raise SystemExit(128 + number)


def finish_interrupted(trainer: Trainer, state: dict[str, Any]) -> None:
    """Do what a run that was killed did not: the validation where it saved, and the end of its epoch.

    Without the validation the run would go on, or be finished, with a best checkpoint that is an earlier one, or none.
    fairseq tells the schedule how an epoch ended after it has saved, so the schedule of a resumed run would not know.

    `state` is the `extra_state` of the checkpoint that the run resumes from.
    """
    from fairseq_cli.train import validate

    cfg, place, loss = trainer.cfg, state["train_iterator"], state.get("val_loss")
    ended = place.get("iterations_in_epoch") == 0  # an old checkpoint may not say
    epoch = place["epoch"] - ended

    if validation_due(trainer, state):
        logger.info("the validation at which the run was interrupted")
        then = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: ended, state_dict=lambda: dict(place))
        loss = validate(cfg, trainer, trainer.task, then, cfg.dataset.valid_subset.split(","))[0]
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, then, loss)

    goes_on = trainer.get_num_updates() and not (cfg.checkpoint.reset_dataloader or cfg.checkpoint.reset_lr_scheduler)
    if ended and goes_on:
        trainer.lr_step(epoch, loss)


def validation_due(trainer: Trainer, state: dict[str, Any]) -> bool:
    """Return whether fairseq's loop would have validated where a checkpoint's `extra_state` has no validation."""
    cfg, updates = trainer.cfg, trainer.get_num_updates()  # none where only the parameters were taken
    if "val_loss" not in state or state["val_loss"] is not None:
        return False
    if not updates or cfg.checkpoint.reset_dataloader:
        return False
    if cfg.dataset.disable_validation or updates < cfg.dataset.validate_after_updates:
        return False

    every = [cfg.dataset.validate_interval_updates, cfg.optimization.max_update]
    place = state["train_iterator"]
    if place["iterations_in_epoch"] > 0:
        every.append(cfg.checkpoint.save_interval_updates)
    elif (place["epoch"] - 1) % cfg.dataset.validate_interval == 0:
        return True
    return any(number > 0 and updates % number == 0 for number in every)


def patch_loop() -> None:
    """Patch the loop of `fairseq_cli.train`, once, when a run begins: to import it changes the log of a process."""
    import fairseq_cli.train as loop

    if hasattr(loop.train, "theirs"):
        return
    theirs, theirs_after_update = loop.train, loop.validate_and_save

    def train(cfg, trainer, task, epoch_itr):
        """Train nothing after the last update: fairseq makes one more and writes it over the checkpoint."""
        if 0 < cfg.optimization.max_update <= trainer.get_num_updates():
            logger.info(f"nothing to do: {trainer.get_num_updates()} of {cfg.optimization.max_update} updates are done")
            return [None], True
        stop_signal.listen()
        goes_on = False
        try:
            losses, should_stop = theirs(cfg, trainer, task, epoch_itr)
            goes_on = not should_stop and epoch_itr.next_epoch_idx <= (cfg.optimization.max_epoch or math.inf)
            return losses, should_stop
        finally:
            if not goes_on:
                stop_signal.restore()

    def validate_and_save(cfg, trainer, *args, **kwargs):
        save_or_stop(trainer)
        return theirs_after_update(cfg, trainer, *args, **kwargs)

    train.theirs = theirs
    loop.train, loop.validate_and_save = train, validate_and_save
