"""The trainer of a run of ours, which takes the place of fairseq's."""

import contextlib
import functools
import hashlib
import os
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.logging.meters import StopwatchMeter
from fairseq.trainer import Trainer

from tupe.errors import UserError, chain
from tupe.fairseq_patches import loop
from tupe.fairseq_patches.checkpoints import (
    broadcast_configurations,
    checkpoint_fits,
    names,
    record_dictionaries,
    refuse_changed_dictionaries,
)
from tupe.fairseq_patches.commands import find_unused_parameters, refuse_to_train_alone
from tupe.fairseq_patches.configuration import explain, refuse_unknown_keys
from tupe.fairseq_patches.optimizers import make_precision_consistent, overflows_on_the_cpu, use_exact_states
from tupe.fairseq_patches.patching import only_runs, overriding, put
from tupe.fairseq_patches.printing import log_beside_the_checkpoints
from tupe.fairseq_patches.ranges import refuse_out_of_range
from tupe.fairseq_patches.scope import chosen, in_scope
from tupe.fairseq_patches.task import put_in_scope
from tupe.files import remove_abandoned

_SHOWN = 32  # batch ids in a sentence


@overriding(Trainer)
class ScheduleTrainer(Trainer):
    """Show a schedule that wants them the parameters and the batches: of any run with a schedule of ours.

    fairseq shows it the optimizer alone.
    """

    def _build_optimizer(self):
        super()._build_optimizer()
        if hasattr(self.lr_scheduler, "follow_parameters"):
            self.lr_scheduler.follow_parameters(self.model, self.criterion)

    def get_train_iterator(self, *args, **kwargs):
        batches = super().get_train_iterator(*args, **kwargs)
        if hasattr(self.lr_scheduler, "follow"):
            self.lr_scheduler.follow(batches)
        return batches


@overriding(Trainer)
class TupeTrainer(ScheduleTrainer):
    """Train where model, task or criterion are of this plugin."""

    def __init__(self, cfg, task, model, criterion, *args, **kwargs):
        put_in_scope(task)
        if isinstance(cfg, Namespace):
            cfg = convert_namespace_to_omegaconf(cfg)
        task.before_training(cfg)
        refuse_out_of_range(cfg)
        refuse_unknown_keys(cfg)
        loop.named_checkpoint(cfg.checkpoint)
        refuse_changed_dictionaries(cfg.task)
        log_beside_the_checkpoints(cfg)
        make_precision_consistent(cfg.common)
        refuse_to_train_alone()
        find_unused_parameters(cfg, model)
        record_dictionaries(cfg, task)
        loop.patch_loop()
        if hasattr(model, "before_training"):  # last, because it sees the precision
            model.before_training(cfg)
        super().__init__(cfg, task, model, criterion, *args, **kwargs)

    def _build_optimizer(self):
        self._optimizer = None
        try:
            super()._build_optimizer()
        except Exception as error:
            kind = "optimizer" if self._optimizer is None else "lr_scheduler"
            explain(kind, self.cfg[kind], error)
            raise
        use_exact_states(self._optimizer)
        use_exact_states(self._lr_scheduler)

    def _build_ema(self):
        """Raise a `UserError` for an `ema_seed_model` without averaged weights."""
        try:
            super()._build_ema()
        except KeyError as error:
            raise UserError(
                f"{self.cfg.ema.ema_seed_model} has no averaged weights: give ema.ema_seed_model a checkpoint of a "
                "training with store_ema, or leave it out"
            ) from error

    def get_train_iterator(self, epoch, *args, disable_iterator_cache=False, **kwargs):
        """Build the batches of a resumed run as the run did in its first epoch.

        fairseq seeds the order of the examples with the epoch in which a process builds its batches, and then keeps the
        batches for all later epochs. A process that resumes in epoch 3 would build other batches than the one that
        began in epoch 1. Iterators that are built again in every epoch stay as they are.
        """
        build, task, dataset = super().get_train_iterator, self.task, self.cfg.dataset
        kwargs["disable_iterator_cache"] = disable_iterator_cache
        if disable_iterator_cache or dataset.update_epoch_batch_itr or getattr(task.cfg, "rebuild_batches", False):
            iterator = build(epoch, *args, **kwargs)
        else:
            iterator = build(1, *args, **kwargs)  # whoever resumes then loads its state, the epoch included
            if epoch != 1 and not task.can_reuse_epoch_itr(iterator.dataset):
                iterator = build(epoch, *args, **kwargs)
        refuse_empty_epochs(self.cfg.optimization, len(iterator))
        return iterator

    def load_checkpoint(self, filename, *args, **kwargs):
        """Load a checkpoint that fits; where the run saves, what killed processes left of theirs goes."""
        if self.is_data_parallel_master:
            remove_abandoned(Path(self.cfg.checkpoint.save_dir))
        goes_on = not (args[0] if args else kwargs.get("reset_optimizer", False))
        with checkpoint_fits(self, filename, goes_on), broadcast_configurations():
            state = super().load_checkpoint(filename, *args, **kwargs)
        meters = metrics.get_meters("default")  # the checkpoint's own, where they were read
        if "wall" not in meters:
            meters.add_meter("wall", StopwatchMeter(round=0), priority=790)  # as fairseq's trainer
        meters["wall"].start()  # else 0 to the end
        self.begin = functools.partial(loop.begin, self, state)
        return state

    def lr_step(self, epoch, *args, **kwargs):
        """Begin a run where fairseq steps its schedule for the first time: last, before the loop over the epochs."""
        rate = super().lr_step(epoch, *args, **kwargs)
        begin, self.begin = getattr(self, "begin", None), None
        if begin is not None:
            begin()
        return rate

    def save_checkpoint(self, *args, **kwargs):
        saved = super().save_checkpoint(*args, **kwargs)
        self.saved_at = time.monotonic()  # for `model.save_interval_minutes`
        return saved

    def state_dict(self):
        """Leave absolute paths out of a checkpoint.

        Nothing reads them again, but in fine-tuning the data, whose labels are compared, and where it started from.
        """
        state = super().state_dict()
        kept = ("finetune_from_model", "data") if in_scope(chosen("task", self.cfg.task)) else ("finetune_from_model",)
        return {**state, "cfg": names(state["cfg"], kept)}

    def _set_seed(self):
        """Draw numbers of its own for each update, process and seed.

        fairseq takes `seed + update`: processes draw the same dropout, and seed 2 that of seed 1, one update later.
        """
        utils.set_torch_seed(update_seed(self.cfg.common.seed, self.get_num_updates(), self.data_parallel_rank))

    def train_step(self, samples, *args, **kwargs):
        with not_finite_is_explained(self, samples), overflows_on_the_cpu():
            return super().train_step(dummies_first(samples), *args, **kwargs)

    def valid_step(self, *args, **kwargs):
        log = super().valid_step(*args, **kwargs)
        loop.save_if_stopped(self)
        return log

    def _aggregate_logging_outputs(self, logging_outputs, *stats, **kwargs):
        """Sum the statistics of an update, and with them what any process was told or is due."""
        told = torch.tensor(loop.wishes(self))
        outputs, (*stats, told) = super()._aggregate_logging_outputs(logging_outputs, *stats, told, **kwargs)
        self.agreed = told.tolist()
        return outputs, stats


def refuse_empty_epochs(optimization: Any, batches: int) -> None:
    """Raise a `UserError` if epochs of so many batches have no update, which fairseq would train for ever or not."""
    every = max(optimization.update_freq)
    if optimization.skip_remainder_batch and (batches - 1) // every == 0:
        raise UserError(
            f"an epoch has {batches} batch(es) and an update {every}, and optimization.skip_remainder_batch leaves out "
            "the last, so that there is no update: leave it out, or lower the size of a batch (dataset.batch_size)"
        )


@contextlib.contextmanager
def not_finite_is_explained(trainer: Trainer, samples: list[dict]) -> Iterator[None]:
    """Raise `explain_failure`'s error where the block finds NaN.

    fairseq saves `crash.pt`, runs the batch again to log where NaN appears, and ends with a traceback.
    """
    try:
        yield
    except Exception as error:
        # the second run can fail in its own way
        cause = next((each for each in chain(error) if isinstance(each, FloatingPointError)), None)
        if cause is None:
            raise
        raise UserError(explain_failure(trainer, samples, cause)) from error


def explain_failure(trainer: Trainer, samples: list[dict], error: FloatingPointError) -> str:
    """Return the sentence: which update (counted from 1), which batch ids, where the state is, and fairseq's reason."""
    ids = [int(index) for sample in samples if sample for index in sample.get("id", ())]
    shown = ", ".join(map(str, ids[:_SHOWN])) + (f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else "")
    reason = str(error).splitlines()[0].rstrip(".")
    if reason == "gradients are Nan/Inf":
        reason = "the loss or a gradient is NaN or infinite; try a lower learning rate, more warm-up or --clip-norm 1"
    crash = os.path.join(trainer.cfg.checkpoint.save_dir, "crash.pt")
    update = trainer.get_num_updates() + 1
    return f"training stopped at update {update}, batch ids {shown} (state saved in {crash}): {reason}"


def update_seed(seed: int, update: int, rank: int) -> int:
    """Return a seed of 63 bits for an update of one process.

    It is a function of the three numbers alone, so that a run resumes.
    """
    digest = hashlib.blake2b(f"{seed} {update} {rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def dummies_first(samples: list[dict]) -> list[dict]:
    """Put the dummies, which a process computes that has no batch left, before the batches of an update.

    fairseq asks of the last batch alone whether it is a dummy. If so it takes the whole process for idle: with
    accumulated gradients, the batches before it count in the gradient and neither in the sample size that divides it
    nor in the log.
    """
    return sorted(samples, key=bool)


def _choose(cls, cfg=None, task=None, model=None, criterion=None, *args, **kwargs):
    if cls is Trainer and in_scope(task, model, criterion):
        return object.__new__(TupeTrainer)
    if cls is Trainer and in_scope(chosen("lr_scheduler", getattr(cfg, "lr_scheduler", None))):
        return object.__new__(ScheduleTrainer)
    return object.__new__(cls)


@only_runs
def chosen_by_what_it_trains() -> None:
    put(Trainer, "__new__", staticmethod(_choose))
