"""fairseq's loop over a run: it begins and resumes as asked, stops by signals, saves, and validates what is due.

SIGINT, SIGTERM and SIGUSR1 finish the update, save and end the run, on all processes at once. The exit status is 128
+ the signal's number, as a shell reports it. A second signal ends the process at once, even one that waits for others
for ever, because a thread listens.
"""

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from torch.utils.data._utils import signal_handling

from tupe.errors import UserError
from tupe.fairseq_patches.configuration import nearest
from tupe.fairseq_patches.patching import wrap
from tupe.fairseq_patches.scope import in_scope

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
#: Seconds in which signals count as one: a launcher hands on what the terminal or the scheduler sent as well.
TOGETHER = 2.0
#: Examples by which validation is asked what it logs.
_EXAMPLES = 2


class Listener:
    """Remembers the first signal while training goes on."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict | None = None

    def install(self) -> None:
        """Begin to listen, in the main thread; elsewhere signals stay what they are."""
        if self._before is not None or threading.current_thread() is not threading.main_thread():
            return
        ear, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        self._wakeup = signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _handler(os.getpid())) for number in SIGNALS}
        self._of_workers = of_workers = signal_handling._set_worker_signal_handlers
        signal_handling._set_worker_signal_handlers = lambda: (of_workers(), end_by_parent())
        threading.Thread(target=self._listen, args=(ear,), daemon=True).start()

    def restore(self) -> None:
        """Give the signals back."""
        if self._before is not None:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._wakeup)
            signal_handling._set_worker_signal_handlers = self._of_workers
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


def _handler(process: int) -> Callable[..., None]:
    """Return what handles a signal in this process, which the listener reads elsewhere, and in those that it forks."""

    def handle(number: int, _: object) -> None:
        if number == signal.SIGTERM and os.getpid() != process:  # its parent would wait for its end
            os._exit(0)

    return handle


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


def wishes(trainer: Trainer) -> list[float]:
    """Tell for each of `SIGNALS` whether this process got it, and whether it is time to save."""
    minutes = getattr(trainer.cfg.model, "save_interval_minutes", 0)
    due = (
        minutes > 0
        and trainer.is_data_parallel_master
        and time.monotonic() > getattr(trainer, "saved_at", math.inf) + 60 * minutes
    )
    return [*(float(listener.received == number) for number in SIGNALS), float(due)]


def agreed(trainer: Trainer) -> tuple[int | None, bool]:
    """Return the signal to stop by, or None; and whether to save."""
    *signals, due = trainer.agreed if trainer.data_parallel_world_size > 1 else wishes(trainer)
    return next((number for number, wished in zip(SIGNALS, signals) if wished), None), bool(due)


def named_checkpoint(cfg) -> str | None:
    """Return the checkpoint that a run begins from, by an option, or None.

    Raises:
        UserError: if it does not exist, as a `--restore-file` without which fairseq trains from nothing, or if the
            options contradict each other.
    """
    others = [cfg.reset_optimizer, cfg.reset_lr_scheduler, cfg.reset_meters, cfg.reset_dataloader]
    if cfg.finetune_from_model is not None and (cfg.restore_file != "checkpoint_last.pt" or any(others)):
        raise UserError(
            f"checkpoint.finetune_from_model is {cfg.finetune_from_model}, which takes the parameters alone: leave out "
            "checkpoint.restore_file and checkpoint.reset_... (--restore-file, --reset-...), or that"
        )
    named = cfg.restore_file if cfg.restore_file != "checkpoint_last.pt" else None
    if named is None and not os.path.exists(os.path.join(cfg.save_dir, "checkpoint_last.pt")):
        named = cfg.finetune_from_model if cfg.continue_once is None else cfg.continue_once
        if found := sorted(path.name for path in Path(cfg.save_dir).glob("checkpoint*.pt")):
            logger.warning(
                f"{cfg.save_dir} has {', '.join(found):.200}, but no checkpoint_last.pt: the run begins anew; to go on "
                "from one of them, name it as checkpoint.restore_file (--restore-file)"
            )
    if named is not None and not checkpoint_utils.PathManager.isfile(named):
        raise UserError(f"there is no checkpoint {os.path.abspath(named)}: give the path of one")
    return named


def begin(trainer: Trainer, state: dict[str, Any] | None) -> None:
    """Ask for the metric of the best checkpoint and the first rate, and do what a run that was killed did not.

    fairseq looks the metric up after the first validation: hours later a `KeyError`. Without the validation the run
    would go on, or be finished, with a best checkpoint that is an earlier one, or none. What an epoch ended with,
    fairseq tells the schedule after it has saved, so that the schedule of a run that goes on from there would not know.

    `state` is the `extra_state` of the checkpoint that the run goes on from.
    """
    refuse_unknown_metric(trainer)
    lowest = trainer.cfg.optimization.stop_min_lr
    if not trainer.get_num_updates() and trainer.get_lr() <= lowest:
        raise UserError(
            f"no update would be made, because the learning rate begins at {trainer.get_lr():g} and "
            f"optimization.stop_min_lr is {lowest:g}: lower that, or leave it out."
        )
    loop = sys.modules.get("fairseq_cli.train")
    if loop is None or state is None:
        return
    cfg, place, loss = trainer.cfg, state["train_iterator"], state.get("val_loss")
    ended = place.get("iterations_in_epoch") == 0  # an old checkpoint may not say
    epoch = place["epoch"] - ended
    if owes(trainer, state):
        logger.info("the validation at which the run was interrupted")
        then = SimpleNamespace(epoch=epoch, end_of_epoch=lambda: ended, state_dict=lambda: dict(place))
        loss = loop.validate(cfg, trainer, trainer.task, then, cfg.dataset.valid_subset.split(","))[0]
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, then, loss)
    goes_on = trainer.get_num_updates() and not (cfg.checkpoint.reset_dataloader or cfg.checkpoint.reset_lr_scheduler)
    if ended and goes_on:
        trainer.lr_step(epoch, loss)


def refuse_unknown_metric(trainer: Trainer) -> None:
    """Raise a `UserError` if validation does not log `best_checkpoint_metric`, by validating on two examples.

    Every criterion logs the loss, so nothing is computed for that, the default.
    """
    cfg, task = trainer.cfg, trainer.task
    metric = cfg.checkpoint.best_checkpoint_metric
    if metric == "loss" or cfg.dataset.disable_validation:
        return
    dataset = task.dataset(cfg.dataset.valid_subset.split(",")[0])
    examples = [dataset[index] for index in range(min(_EXAMPLES, len(dataset)))]
    with metrics.aggregate(new_root=True) as logged:
        trainer.valid_step(dataset.collater(examples))
    names = [*logged, "num_updates"]
    # BLEU is logged once a translation has a word: until then there are _bleu_sys_len and others
    if metric not in names and not any(name.startswith(f"_{metric}_") for name in names):
        shown = sorted(name for name in names if not name.startswith("_"))
        raise UserError(
            f"checkpoint.best_checkpoint_metric is {metric}{nearest(metric, shown)}, but validation logs "
            f"{', '.join(shown)}: choose one of these."
        )


def owes(trainer: Trainer, state: dict[str, Any]) -> bool:
    """Tell whether fairseq's loop would have validated where a checkpoint's `extra_state` has no validation."""
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
