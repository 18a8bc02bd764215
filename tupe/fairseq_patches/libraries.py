"""Patches for libraries newer than those that fairseq was written for: numpy, threads at exit, a CPU alone."""

import atexit
import sys
import threading
from types import SimpleNamespace

import numpy as np
import torch
from fairseq import distributed_utils
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset
from fairseq.data.iterators import BackgroundConsumer

from tupe.fairseq_patches.patching import only_runs, overlay, patch, patches, put

_SECONDS = 10  # for a batch; a thread that takes longer is left to fairseq


_COMPAT = {"compat": SimpleNamespace(long=np.int64)}
#: What `fairseq.data` still uses of numpy: module, function, and what numpy 2 lacks there.
_NUMPY = (
    (token_block_dataset, "TokenBlockDataset._build_slice_indices", _COMPAT),
    (language_pair_dataset, "LanguagePairDataset.__init__", _COMPAT),
    (data_utils, "get_buckets", {"percentile": lambda a, q, interpolation: np.percentile(a, q, method=interpolation)}),
)


@patch
def names_that_numpy_removed() -> None:
    """`--sample-break-mode eos` and `--num-batch-buckets` need them. Older numpy has the same under these names too."""
    for module, function, removed in _NUMPY:
        put(module, "np", overlay(module, "np", function, **removed))


def end_consumers() -> None:
    """End fairseq's threads that make batches after the batch that they are at.

    One that is in PyTorch when Python ends aborts the process: exit status 134 would hide that of the run.
    """
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread._max_len, queue = 0, thread._queue
            with queue.mutex:  # it may wait for room
                queue.maxsize = sys.maxsize
                queue.not_full.notify()
            thread.join(_SECONDS)


@only_runs
def when_python_ends() -> None:
    """Call `end_consumers` at the end of a process that trains or validates."""
    atexit.register(end_consumers)


@patches(
    distributed_utils, "all_gather_list", "data group", only_for=lambda *args, **kwargs: not torch.cuda.is_available()
)
def gathers_on_the_cpu(original):
    """For every run: without a GPU fairseq fails here, because it asks for a GPU's memory."""

    def all_gather_list(data, group=None, max_size=None):
        group = distributed_utils.get_global_group() if group is None else group
        gathered = [None] * distributed_utils.get_world_size(group)
        torch.distributed.all_gather_object(gathered, data, group=group)
        return gathered

    return all_gather_list
