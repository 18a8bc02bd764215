"""Tasks in a run of ours: the base of our own classes, which is put before the class of a task of fairseq's too."""

import functools
import logging
import os
import sys
from typing import Any

import numpy as np
import torch
from fairseq import criterions
from fairseq.data import BaseWrapperDataset, FairseqDataset, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, data_file_path, index_file_path
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask

from tupe.data.batches import MaskedBatches
from tupe.data.length_order import with_last_batch
from tupe.fairseq_patches.checkpoints import check_dictionaries
from tupe.fairseq_patches.patching import install, overriding, patched, patches
from tupe.fairseq_patches.scope import MARK, chosen, in_scope
from tupe.util import UserError

logger = logging.getLogger(__name__)


@overriding(FairseqTask, "before_training")
class TupeTask(FairseqTask):
    """Differences of every task from fairseq's: the base of our tasks, put before fairseq's class by `put_in_scope`."""

    def before_training(self, cfg: Any) -> None:
        """Change the configuration of a run that trains this task, before its trainer is made."""

    def build_dataset_for_inference(self, *args, **kwargs):
        """Pad sources where the task does; `fairseq-interactive` pads them on the left without asking it."""
        dataset = super().build_dataset_for_inference(*args, **kwargs)
        if hasattr(self.cfg, "left_pad_source"):
            dataset.left_pad_source = self.cfg.left_pad_source
        return dataset

    def inference_step(self, generator, models, sample, *args, **kwargs):
        """Leave `id` out of the sample: fairseq's diverse beam search indexes the batch with it."""
        sample = {key: part for key, part in sample.items() if key != "id"}
        return super().inference_step(generator, models, sample, *args, **kwargs)

    def load_dataset(self, split, *args, **kwargs):
        with patched():
            return super().load_dataset(split, *args, **kwargs)

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        """Warn of sequences that training skips. fairseq names ten of them, and not how much of the data they are."""
        kept = super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)
        if len(kept) < len(indices):
            used, total = (sum(int(np.sum(dataset.size(index))) for index in part) for part in (kept, indices))
            logger.warning(
                f"{1 - used / total:.2%} of the tokens are never used: {len(indices) - len(kept):,} of "
                f"{len(indices):,} sequences are longer than max_positions={max_positions}. Raise "
                "--tokens-per-sample and --max-positions, or break lines with --sample-break-mode none."
            )
        return kept

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """Start the data workers again in every epoch, and keep the last batch.

        fairseq keeps the workers, with a copy of the data set that stays in the epoch in which they started: with
        `num_workers` above 0, all epochs would see the masks of that epoch.
        """
        keep_last_batch(dataset)
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        iterator.persistent_workers = False
        if not getattr(self.cfg, "rebuild_batches", False):
            vars(dataset).pop("batch_by_size", None)  # it refers to the data set, which would stay in memory
        return iterator

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False, **kwargs):
        """Count nothing of a batch whose gradient is ignored: its sample size and its log are zero."""
        loss, size, log = super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad, **kwargs)
        if ignore_grad:
            size, log = zero(size), {key: zero(value) for key, value in log.items()}
        return loss, size, log

    def valid_step(self, sample, model, criterion, **kwargs):
        """Repeat the last batch in place of an empty one, and count nothing of it.

        `fairseq-validate` gives an empty batch to a process that has no batch left.
        """
        if sample:
            self.validated_last = sample
            return super().valid_step(sample, model, criterion, **kwargs)
        loss, size, log = super().valid_step(self.validated_last, model, criterion, **kwargs)
        return zero(loss), zero(size), {key: zero(value) for key, value in log.items()}


@overriding(MaskedLMTask)
class TupeMaskedLMTask(TupeTask):
    """Before fairseq's `masked_lm`: batches have the positions of their masks."""

    def _regular_dataset(self, *datasets):
        """Return batches with `masked_tokens`, for which the criterion otherwise asks the GPU, and waits."""
        dataset = super()._regular_dataset(*datasets)
        return MaskedBatches(dataset.defn, dataset.sizes, self.source_dictionary)


def zero(value):
    """Return a zero of the type of a tensor or number."""
    return torch.zeros_like(value) if torch.is_tensor(value) else type(value)(0)


def keep_last_batch(dataset: FairseqDataset) -> None:
    """Let `dataset.batch_by_size` return all examples, unless the data set has a method of its own."""
    if type(dataset).batch_by_size in (FairseqDataset.batch_by_size, BaseWrapperDataset.batch_by_size):
        dataset.batch_by_size = functools.partial(_all_batches, dataset)


def _all_batches(dataset: FairseqDataset, indices, *args, **kwargs) -> list:
    return with_last_batch(type(dataset).batch_by_size(dataset, indices, *args, **kwargs), indices)


def put_in_scope(part: Any) -> None:
    """Tell an object that it takes part in a run of ours. A task of fairseq's then behaves as a `TupeTask`."""
    if isinstance(part, FairseqTask):
        part.__class__ = _of_ours(type(part))
    elif part is not None:
        setattr(part, MARK, True)


@functools.cache
def _of_ours(task: type[FairseqTask]) -> type[FairseqTask]:
    """Return the class `task` with our overrides before it, under its own name."""
    if issubclass(task, TupeTask):
        return task
    masked = getattr(task, "load_dataset", None) is MaskedLMTask.load_dataset  # not one that somebody overrode
    names = {"__module__": task.__module__, "__qualname__": task.__qualname__, "__doc__": task.__doc__}
    return type(task.__name__, (TupeMaskedLMTask if masked else TupeTask, task), names)


@patches(criterions, "build_criterion", "cfg task")
def criterion_in_scope(original):
    """Put the task of a criterion of ours in scope, also where the model is fairseq's."""

    def build_criterion(cfg, task, *args, **kwargs):
        if in_scope(chosen("criterion", cfg)):
            put_in_scope(task)
        return original(cfg, task, *args, **kwargs)

    return build_criterion


def before_building(cfg: Any, task: FairseqTask) -> None:
    """Mark the task of a model of ours, and compare its dictionaries with those of a checkpoint's configuration.

    The hub interface, `fairseq-validate` and `fairseq-generate` build a model from such a configuration.

    Raises:
        UserError: for another dictionary.
    """
    if "fairseq_cli" in sys.modules:  # imported after the plugin
        install()
    put_in_scope(task)
    check_dictionaries(cfg, task)


@patches(indexed_dataset, "make_dataset", "path impl")
def index_is_whole(original):
    """Compare an index with its data: of a damaged one, fairseq reads other sequences in silence."""

    def make_dataset(path, impl, *args, **kwargs):
        dataset = original(path, impl, *args, **kwargs)
        if isinstance(dataset, MMapIndexedDataset) and len(dataset):
            index, item = dataset._index, dataset._index.dtype().itemsize
            ends = index._pointers + item * index._sizes.astype(np.int64)
            follow = index._pointers[0] == 0 and np.array_equal(ends[:-1], index._pointers[1:])
            if not follow or ends[-1] != os.path.getsize(data_file_path(path)):
                raise UserError(f"{index_file_path(path)} does not fit the data beside it: prepare the data again.")
        return dataset

    return make_dataset
