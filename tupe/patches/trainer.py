"""The trainer that replaces fairseq's."""

import functools
import hashlib
import math
import os
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from tupe.patches import loop
from tupe.patches.checkpoints import check_checkpoint, check_data, record_facts, refuse_to_begin
from tupe.patches.launch import refuse_to_train_alone
from tupe.patches.optimizers import make_precision_consistent
from tupe.patches.order import split_of
from tupe.util import remove_parts


class TupeTrainer(Trainer):
    """fairseq's trainer, which resumes with the same bits and stops after a signal."""

    def __init__(self, cfg, task, model, criterion, *args, **kwargs):
        if hasattr(task, "before_training"):
            task.before_training(cfg)
        if getattr(cfg.model, "pretrained", None):  # the saved configuration contains its fields, not its path
            cfg.checkpoint.finetune_from_model, cfg.model.pretrained = cfg.model.pretrained, None
        if (data := getattr(cfg.task, "data", None)) and cfg.distributed_training.distributed_rank == 0:
            check_data(data)
        make_precision_consistent(cfg.common)
        refuse_to_train_alone()
        record_facts(cfg, task)
        # fairseq sends the first process's checkpoint to the others through `torch.load`, which rejects omegaconf's
        cfg.checkpoint.load_checkpoint_on_all_dp_ranks = True

        self.early_stop = loop.patch_loop()
        for counts in (self.early_stop, vars(checkpoint_utils.save_checkpoint)):
            counts.clear()  # of an earlier run in this process
        self.saved_at = math.inf
        self.requested = [0.0] * (len(loop.SIGNALS) + 1)
        super().__init__(cfg, task, model, criterion, *args, **kwargs)

    def _build_optimizer(self):
        """Pass the parameters to a schedule that needs them; fairseq passes only the optimizer."""
        super()._build_optimizer()
        if hasattr(self.lr_scheduler, "group_parameters"):
            self.lr_scheduler.group_parameters(self.model, self.criterion)

    def get_train_iterator(self, epoch, *args, disable_iterator_cache=False, **kwargs):
        """Build the batches of a resumed run as the run did in its first epoch.

        fairseq orders the examples by the epoch in which a process builds its batches, and keeps these batches in later
        epochs: a process that resumes in epoch 3 would build others. Those built in every epoch are left alone.
        """
        build = functools.partial(super().get_train_iterator, disable_iterator_cache=disable_iterator_cache)
        first = epoch if disable_iterator_cache or self.cfg.dataset.update_epoch_batch_itr else 1
        self.batches = build(first, *args, **kwargs)  # a resumed run then loads its state, the epoch included
        if first != epoch and not self.task.can_reuse_epoch_itr(self.batches.dataset):
            self.batches = build(epoch, *args, **kwargs)
        self.batches.split = split_of(self)

        if hasattr(self.lr_scheduler, "set_batches"):
            self.lr_scheduler.set_batches(self.batches)
        return self.batches

    def load_checkpoint(self, filename, reset_optimizer=False, *args, **kwargs):
        """Load a checkpoint after checking that it fits this run; delete temporary files of killed runs."""
        saving = self.cfg.checkpoint
        last = os.path.join(saving.save_dir, f"checkpoint_last{self.checkpoint_suffix}.pt")
        if self.is_data_parallel_master:
            remove_parts(Path(saving.save_dir))
        begins = reset_optimizer or not PathManager.isfile(filename)
        if begins and not (os.path.exists(last) or saving.no_last_checkpoints or saving.no_save):
            refuse_to_begin(last, "is missing")
        if PathManager.isfile(filename):
            check_checkpoint(filename, self.cfg, self.task, resumes=not reset_optimizer)
        elif filename != last:  # fairseq would train from scratch
            raise FileNotFoundError(filename)
        state = super().load_checkpoint(filename, reset_optimizer, *args, **kwargs)
        self.begin = functools.partial(loop.finish_interrupted, self, state) if state else None
        return state

    def state_dict(self):
        """Add the count of `checkpoint.patience`, which fairseq does not save."""
        state = super().state_dict()
        state["extra_state"]["early_stop"] = dict(self.early_stop)
        return state

    def lr_step(self, epoch, *args, **kwargs):
        """Also call `begin` at the first step, which fairseq makes after loading, before its loop over the epochs."""
        rate = super().lr_step(epoch, *args, **kwargs)
        begin, self.begin = getattr(self, "begin", None), None
        if begin is not None:
            begin()
        return rate

    def _set_seed(self):
        """Give each update, process and seed its own random numbers.

        fairseq uses `seed + update`, so processes draw the same dropout, and seed 2 draws that of seed 1's next update.
        """
        place = f"{self.cfg.common.seed} {self.get_num_updates()} {self.data_parallel_rank}"
        digest = hashlib.blake2b(place.encode(), digest_size=8).digest()
        utils.set_torch_seed(int.from_bytes(digest, "little") >> 1)  # 63 bits

    def train_step(self, samples, *args, **kwargs):
        """Make an update, with dummy batches first, which a process computes when it has no batch.

        fairseq treats the whole process as idle if its last batch is a dummy. If gradients are accumulated, the batches
        before it then count in the gradient, but neither in the sample size that divides it nor in the log.
        """
        return super().train_step(sorted(samples, key=bool), *args, **kwargs)

    def valid_step(self, *args, **kwargs):
        """Validate on a batch, and end the validation after a signal."""
        log = super().valid_step(*args, **kwargs)
        loop.save_or_stop(self)
        return log

    def _aggregate_logging_outputs(self, logging_outputs, *stats, **kwargs):
        """Sum the statistics of an update and, with them, the signals and saves that any process requests."""
        requested = torch.tensor(loop.local_stop_request(self))
        outputs, (*stats, requested) = super()._aggregate_logging_outputs(logging_outputs, *stats, requested, **kwargs)
        self.requested = requested.tolist()
        return outputs, stats
