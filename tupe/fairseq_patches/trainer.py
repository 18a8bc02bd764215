"""The trainer of a run of ours."""

from argparse import Namespace

import torch
from fairseq import utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from tupe.fairseq_patches import stop
from tupe.fairseq_patches.failures import not_finite_is_explained
from tupe.fairseq_patches.patching import check, only_runs, put
from tupe.fairseq_patches.paths import names
from tupe.fairseq_patches.precision import overflows_on_the_cpu
from tupe.fairseq_patches.resume import checkpoint_fits
from tupe.fairseq_patches.saving import written_once
from tupe.fairseq_patches.scope import PREPARATIONS, chosen, in_scope
from tupe.fairseq_patches.seeds import update_seed
from tupe.fairseq_patches.task import put_in_scope
from tupe.fairseq_patches.uneven import dummies_first

#: The methods of fairseq's trainer that `TupeTrainer` overrides, with their first parameters.
_OVERRIDDEN = {
    "__init__": "self cfg task model criterion",
    "_build_optimizer": "self",
    "get_train_iterator": "self epoch",
    "load_checkpoint": "self filename",
    "save_checkpoint": "self filename extra_state",
    "state_dict": "self",
    "_set_seed": "self",
    "train_step": "self samples",
    "valid_step": "self sample",
    "_aggregate_logging_outputs": "self logging_outputs",
}


class TupeTrainer(Trainer):
    """fairseq's trainer, which takes the place of `Trainer` where model, task or criterion are of this plugin."""

    def __init__(self, cfg, task, model, criterion, *args, **kwargs):
        put_in_scope(task)
        if isinstance(cfg, Namespace):
            cfg = convert_namespace_to_omegaconf(cfg)
        for prepare in PREPARATIONS:
            prepare(cfg, task, model)
        super().__init__(cfg, task, model, criterion, *args, **kwargs)

    def _build_optimizer(self):
        super()._build_optimizer()
        put_in_scope(self._optimizer)  # for `precision`

    def get_train_iterator(self, epoch, *args, disable_iterator_cache=False, **kwargs):
        """Build the batches of a resumed run as the run did in its first epoch.

        fairseq seeds the order of the examples with the epoch in which a process builds its batches, and then keeps the
        batches for all later epochs. A process that resumes in epoch 3 would build other batches than the one that
        began in epoch 1. Iterators that are built again in every epoch stay as they are.
        """
        build, task, dataset = super().get_train_iterator, self.task, self.cfg.dataset
        kwargs["disable_iterator_cache"] = disable_iterator_cache
        if disable_iterator_cache or dataset.update_epoch_batch_itr or getattr(task.cfg, "rebuild_batches", False):
            return build(epoch, *args, **kwargs)
        iterator = build(1, *args, **kwargs)  # whoever resumes then loads its state, the epoch included
        if epoch == 1 or task.can_reuse_epoch_itr(iterator.dataset):
            return iterator
        return build(epoch, *args, **kwargs)

    def load_checkpoint(self, filename, *args, **kwargs):
        with checkpoint_fits(self, filename):
            return super().load_checkpoint(filename, *args, **kwargs)

    def save_checkpoint(self, *args, **kwargs):
        with written_once():
            return super().save_checkpoint(*args, **kwargs)

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
        stop.save_if_stopped(self)
        return log

    def _aggregate_logging_outputs(self, logging_outputs, *stats, **kwargs):
        """Sum the statistics of an update, and with them what any process was told or is due."""
        told = torch.tensor(stop.wishes(self))
        outputs, (*stats, told) = super()._aggregate_logging_outputs(logging_outputs, *stats, told, **kwargs)
        self.agreed = told.tolist()
        return outputs, stats


def _choose(cls, cfg=None, task=None, model=None, criterion=None, *args, **kwargs):
    return object.__new__(TupeTrainer if cls is Trainer and in_scope(task, model, criterion) else cls)


for _name, _takes in _OVERRIDDEN.items():
    check(Trainer, _name, _takes)


@only_runs
def chosen_by_what_it_trains() -> None:
    put(Trainer, "__new__", staticmethod(_choose))
