"""fairseq's loop over a run: it ends on time, saves by the clock, and runs the validation that a killed run missed.

SIGINT, SIGTERM and SIGUSR1 finish the update, save and end the run, on all processes at once. The exit status is 128
+ the signal's number, as a shell reports it.
"""

import functools
import logging
import math
import os
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

_received: list[int] = []
_before: dict[int, Any] = {}


def listen() -> None:
    """Record signals from now on, if this is the main thread; otherwise do nothing.

    Only the first one counts, because schedulers and launchers send several. A second Ctrl-C ends the process at once.
    """
    if not _before and threading.current_thread() is threading.main_thread():
        _before.update({number: signal.signal(number, _receive) for number in SIGNALS})


def _receive(number: int, frame: Any) -> None:
    if number == signal.SIGINT and _received:
        signal.default_int_handler(number, frame)
    os.write(2, f"{signal.Signals(number).name}: the run ends after this update\n".encode())  # logging may be in use
    _received.append(number)


def restore() -> None:
    """Restore the previous signal handlers."""
    for number, handler in _before.items():
        signal.signal(number, handler)
    _before.clear()
    _received.clear()


def local_stop_request(trainer: Trainer) -> list[float]:
    """Return for each of `SIGNALS` whether this process received it first, and whether it is time to save."""
    minutes = getattr(trainer.cfg.model, "save_interval_minutes", 0)
    due = trainer.is_data_parallel_master and 0 < 60 * minutes < time.monotonic() - trainer.saved_at
    return [float(number in _received[:1]) for number in SIGNALS] + [float(due)]


def save_or_stop(trainer: Trainer) -> None:
    """Save if it is time, or save and end the run after a signal; the next start runs a validation that is due."""
    alone = trainer.data_parallel_world_size == 1
    *signals, due = local_stop_request(trainer) if alone else trainer.requested
    number = next((number for number, asks in zip(SIGNALS, signals) if asks), None)
    if number is None and not due:
        return
    checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, trainer.batches, None)
    trainer.saved_at = time.monotonic()
    if number is None:
        return

    if not alone:
        torch.distributed.barrier(trainer.data_parallel_process_group)  # no process ends before all is written
    logger.info(
        f"stopped by {signal.Signals(number).name} after update {trainer.get_num_updates()}: the same command resumes"
    )
    raise SystemExit(128 + number)


def finish_interrupted(trainer: Trainer, state: dict[str, Any]) -> None:
    """Make up for what a killed run missed after it saved: the validation, and the end of its epoch.

    Without the validation the best checkpoint would be an earlier one, or missing.
    fairseq steps the schedule of an epoch after it has saved, so the schedule of a resumed run would miss the epoch.
    fairseq also forgets how long `checkpoint.patience` has lasted.

    `state` is the `extra_state` of the checkpoint that the run resumes from.
    """
    from fairseq_cli.train import should_stop_early, validate

    cfg, place, loss = trainer.cfg, state["train_iterator"], state.get("val_loss")
    ended = place.get("iterations_in_epoch") == 0  # an old checkpoint may lack it
    epoch = place["epoch"] - ended
    if trainer.get_num_updates() and not cfg.checkpoint.reset_meters:
        trainer.early_stop.update(state.get("early_stop", {}))

    if validation_due(trainer, state):
        logger.info("running the validation that the interrupted run missed")
        then = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: ended, state_dict=lambda: dict(place))
        loss = validate(cfg, trainer, trainer.task, then, cfg.dataset.valid_subset.split(","))[0]
        should_stop_early(cfg, loss)
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, then, loss)

    goes_on = trainer.get_num_updates() and not (cfg.checkpoint.reset_dataloader or cfg.checkpoint.reset_lr_scheduler)
    if ended and goes_on:
        trainer.lr_step(epoch, loss)


def validation_due(trainer: Trainer, state: dict[str, Any]) -> bool:
    """Return whether fairseq's loop would have validated, but a checkpoint's `extra_state` has no validation."""
    cfg, updates = trainer.cfg, trainer.get_num_updates()  # 0 if only the parameters were loaded
    if state.get("val_loss", 0.0) is not None or not updates or cfg.checkpoint.reset_dataloader:
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


@functools.cache
def patch_loop() -> dict[str, Any]:
    """Patch `fairseq_cli.train` when a run starts, as importing it configures logging; return its early-stop state."""
    import fairseq_cli.train as loop

    train_theirs, after_update = loop.train, loop.validate_and_save

    def train(cfg, trainer, task, epoch_itr):
        """Train nothing after the last update: fairseq would make one more and overwrite the checkpoint."""
        updates, without_gain = trainer.get_num_updates(), trainer.early_stop.get("num_runs", 0)
        if 0 < cfg.optimization.max_update <= updates or 0 < cfg.checkpoint.patience <= without_gain:
            logger.info(f"nothing to do: max_update or patience ended the run after update {updates}")
            return [None], True
        listen()
        trainer.saved_at = min(trainer.saved_at, time.monotonic())  # the clock starts with the first epoch
        goes_on = False
        try:
            losses, should_stop = train_theirs(cfg, trainer, task, epoch_itr)
            goes_on = not should_stop and epoch_itr.next_epoch_idx <= (cfg.optimization.max_epoch or math.inf)
            return losses, should_stop
        finally:
            if not goes_on:
                restore()

    def validate_and_save(cfg, trainer, *args, **kwargs):
        save_or_stop(trainer)
        return after_update(cfg, trainer, *args, **kwargs)

    loop.train, loop.validate_and_save = train, validate_and_save
    return vars(loop.should_stop_early)
