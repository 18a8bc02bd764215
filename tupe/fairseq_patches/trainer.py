"""The trainer of a run of ours, which takes the place of fairseq's."""

import functools
import hashlib
import time
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from tupe.fairseq_patches import loop
from tupe.fairseq_patches.checkpoints import (
    broadcast_configurations,
    checkpoint_fits,
    record_dictionaries,
    refuse_other_shards,
)
from tupe.fairseq_patches.commands import find_unused_parameters, refuse_to_train_alone
from tupe.fairseq_patches.optimizers import make_precision_consistent, overflows_on_the_cpu, use_exact_states
from tupe.fairseq_patches.patching import only_runs, overriding, put
from tupe.fairseq_patches.scope import chosen, in_scope
from tupe.fairseq_patches.task import put_in_scope
from tupe.util import remove_parts


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
        if getattr(cfg.model, "pretrained", None):  # the saved configuration has its fields, and needs it no more
            cfg.checkpoint.finetune_from_model, cfg.model.pretrained = cfg.model.pretrained, None
        loop.refuse_missing_checkpoint(cfg.checkpoint)
        refuse_other_shards(getattr(cfg.task, "data", None) or "")
        make_precision_consistent(cfg.common)
        refuse_to_train_alone()
        find_unused_parameters(cfg, model)
        record_dictionaries(cfg, task)
        loop.patch_loop()
        super().__init__(cfg, task, model, criterion, *args, **kwargs)

    def _build_optimizer(self):
        super()._build_optimizer()
        use_exact_states(self._optimizer)
        use_exact_states(self._lr_scheduler)

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
        return iterator

    def load_checkpoint(self, filename, *args, **kwargs):
        """Load a checkpoint after checking that it matches this run; delete temporary files of killed runs."""
        if self.is_data_parallel_master:
            remove_parts(Path(self.cfg.checkpoint.save_dir))
        resumes = not (args[0] if args else kwargs.get("reset_optimizer", False))
        with checkpoint_fits(self, resumes), broadcast_configurations():
            state = super().load_checkpoint(filename, *args, **kwargs)
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

    def _set_seed(self):
        """Draw numbers of its own for each update, process and seed.

        fairseq takes `seed + update`: processes draw the same dropout, and seed 2 that of seed 1, one update later.
        """
        utils.set_torch_seed(update_seed(self.cfg.common.seed, self.get_num_updates(), self.data_parallel_rank))

    def train_step(self, samples, *args, **kwargs):
        with overflows_on_the_cpu():
            return super().train_step(dummies_first(samples), *args, **kwargs)

    def valid_step(self, *args, **kwargs):
        log = super().valid_step(*args, **kwargs)
        loop.save_if_stopped(self)
        return log

    def _aggregate_logging_outputs(self, logging_outputs, *stats, **kwargs):
        """Sum the statistics of an update, and with them what any process received or is due."""
        requested = torch.tensor(loop.local_requests(self))
        outputs, (*stats, requested) = super()._aggregate_logging_outputs(logging_outputs, *stats, requested, **kwargs)
        self.requested = requested.tolist()
        return outputs, stats


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
