"""Batches: the last one is kept, dummies do not count, skipped sequences are reported, workers survive signals."""

import logging
import os
import signal
import sys
import threading

import numpy as np
import torch
from fairseq.data import FairseqDataset
from fairseq.data.iterators import BackgroundConsumer
from fairseq.tasks import FairseqTask, masked_lm
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.translation import TranslationTask
from torch.utils.data._utils import signal_handling

from tupe.data.batches import MaskedBatches
from tupe.patches.loop import SIGNALS

logger = logging.getLogger(__name__)

_batch_by_size = FairseqDataset.batch_by_size
_filter_indices_by_size = FairseqTask.filter_indices_by_size
_train_step, _valid_step = FairseqTask.train_step, FairseqTask.valid_step
_regular_dataset = MaskedLMTask._regular_dataset
_maybe_shorten_dataset = masked_lm.maybe_shorten_dataset
_build_dataset_for_inference = TranslationTask.build_dataset_for_inference
_set_worker_signal_handlers = signal_handling._set_worker_signal_handlers


def batch_by_size(self, indices, *args, **kwargs) -> list:
    """Keep the last batch, also in validation.

    fairseq drops it if `required_batch_size_multiple`, 8 by default, does not divide it.
    """
    batches = _batch_by_size(self, indices, *args, **kwargs)
    dropped = indices[sum(map(len, batches)) :]
    return [*batches, dropped] if len(dropped) else batches


def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
    """Warn about tokens that training never uses.

    fairseq names ten of the sequences that are too long, but not their fraction of the data, which has been 36%.
    """
    kept = _filter_indices_by_size(self, indices, dataset, max_positions, ignore_invalid_inputs)
    if len(kept) < len(indices):
        total = sum(int(np.sum(dataset.size(index))) for index in indices)
        used = sum(int(np.sum(dataset.size(index))) for index in kept)
        logger.warning(
            f"{1 - used / total:.2%} of the tokens are never used: {len(indices) - len(kept):,} of {len(indices):,} "
            f"sequences exceed max_positions={max_positions}. Raise tokens_per_sample, or set sample_break_mode=none."
        )
    return kept


def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False, **kwargs):
    """Set the sample size and the log of a dummy batch to zero; fairseq ignores only its gradient."""
    loss, size, log = _train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad, **kwargs)
    return (loss, _zero(size), _zero(log)) if ignore_grad else (loss, size, log)


def valid_step(self, sample, model, criterion, **kwargs):
    """Repeat the last batch instead of an empty one, with zero loss, sample size and log.

    `fairseq-validate` passes empty batches to a process that has none left; each must have had one with examples.
    """
    if sample:
        self.validated_last = sample
        return _valid_step(self, sample, model, criterion, **kwargs)
    return tuple(map(_zero, _valid_step(self, self.validated_last, model, criterion, **kwargs)))


def _zero(value):
    """Return a tensor, a number or a log with zeros, so that the batch does not count."""
    if isinstance(value, dict):
        return {key: _zero(part) for key, part in value.items()}
    return torch.zeros_like(value) if torch.is_tensor(value) else type(value)(0)


def regular_dataset(self, *datasets):
    """Return batches of `masked_lm` with `masked_tokens`, so that the criterion need not wait for the GPU."""
    dataset = _regular_dataset(self, *datasets)
    return MaskedBatches(dataset.defn, dataset.sizes, self.source_dictionary)


def shorten_dataset(dataset, split, splits, method, length, seed):
    """Leave room for the `<s>` that `masked_lm` prepends; otherwise each shortened sequence is skipped as too long.

    `split` may include the folder of a language, such as `de/train`; the names in `splits` do not.
    """
    return _maybe_shorten_dataset(dataset, os.path.basename(split), splits, method, length - 1, seed)


def build_dataset_for_inference(self, *args, **kwargs):
    """Pad sources on the task's side; `fairseq-interactive` pads them on the left for every task."""
    dataset = _build_dataset_for_inference(self, *args, **kwargs)
    dataset.left_pad_source = self.cfg.left_pad_source
    return dataset


def set_worker_signal_handlers() -> None:
    """Make a data worker ignore signals, except those from its training process.

    torchrun and SLURM signal every process. Without its workers, a training could finish neither update nor epoch.
    """
    _set_worker_signal_handlers()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    threading.Thread(target=_end_with_training, daemon=True).start()


def _end_with_training() -> None:
    while signal.sigwaitinfo(SIGNALS).si_pid != os.getppid():
        pass
    os._exit(0)


def stop_prefetching() -> None:
    """End fairseq's threads that prefetch batches, each after its current batch.

    A thread inside PyTorch when Python exits aborts the process, and exit status 134 would hide that of the run.
    """
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread._max_len, queue = 0, thread._queue
            with queue.mutex:  # it may wait for room
                queue.maxsize = sys.maxsize
                queue.not_full.notify()
            thread.join(10)  # fairseq handles one that takes longer
