"""The list of fairseq 0.12.3.1's faults on today's libraries, and their replacements."""

import atexit
import functools
import sys
from types import SimpleNamespace
from typing import Any

import fairseq
import fairseq.trainer
import numpy as np
from fairseq import checkpoint_utils, distributed_utils, optim, options
from fairseq.data import FairseqDataset, iterators
from fairseq.file_io import PathManager
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.tasks import FairseqTask, masked_lm
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.translation import TranslationTask
from torch.utils.data._utils import signal_handling

from tupe.patches import batches, checkpoints, launch, optimizers, order
from tupe.patches.trainer import TupeTrainer
from tupe.util import UserError

VERSION = "0.12.3.1"
#: Object, attribute, replacement. Each comment names the fault, and the docstrings describe it.
PATCHES: list[tuple[Any, str, Any]] = [
    # --bf16 needs a TPU
    (options, "parse_args_and_arch", launch.parse_args_and_arch),
    # on the CPU, or with one GPU per machine, each process of torchrun trains its own model
    (distributed_utils, "call_main", launch.call_main),
    # needs a GPU
    (distributed_utils, "all_gather_list", launch.all_gather_list),
    # PyTorch refuses names that fairseq writes into checkpoints
    (checkpoint_utils, "load_checkpoint_to_cpu", checkpoints.load_checkpoint_to_cpu),
    # a translator translates in the wrong direction, also in an ensemble
    (checkpoint_utils, "load_model_ensemble_and_task", checkpoints.load_model_ensemble_and_task),
    # a checkpoint is written after the remains of an attempt that failed
    (checkpoint_utils, "torch_persistent_save", checkpoints.save_atomically),
    # a killed run leaves half of checkpoint_last.pt
    (PathManager, "copy", staticmethod(checkpoints.copy_atomically)),
    # resumed runs have other batches and lose validations; signals end a run without saving it
    (fairseq.trainer, "Trainer", TupeTrainer),
    # resumed runs have rounded parameters and another loss scale
    (optim, "FP16Optimizer", optimizers.FP16Optimizer),
    (optim, "MemoryEfficientFP16Optimizer", optimizers.MemoryEfficientFP16Optimizer),
    # gradients are divided by the loss scale twice
    (optim, "AMPOptimizer", optimizers.AMPOptimizer),
    # the last batch is dropped
    (FairseqDataset, "batch_by_size", batches.batch_by_size),
    # skipped data is not reported
    (FairseqTask, "filter_indices_by_size", batches.filter_indices_by_size),
    # data workers draw the masks of one epoch in all epochs
    (FairseqTask, "get_batch_iterator", order.get_batch_iterator),
    # runs that resume with other batches leave out sequences and repeat others
    (iterators, "EpochBatchIterator", order.EpochBatchIterator),
    # dummy batches count
    (FairseqTask, "train_step", batches.train_step),
    (FairseqTask, "valid_step", batches.valid_step),
    # the criterion waits for the GPU to find the masks
    (MaskedLMTask, "_regular_dataset", batches.regular_dataset),
    # fairseq-interactive pads on the left
    (TranslationTask, "build_dataset_for_inference", batches.build_dataset_for_inference),
    # a signal to all processes ends data workers, and with them the training
    (signal_handling, "_set_worker_signal_handlers", batches.set_worker_signal_handlers),
    # numpy 2 has no `numpy.compat`
    (np, "compat", SimpleNamespace(long=np.int64)),
]


@functools.cache
def install() -> None:
    """Patch fairseq for the rest of the process, once.

    Raises:
        UserError: the installed fairseq is not the one that the patches were made for.
    """
    if fairseq.__version__ != VERSION:
        raise UserError(f"Install fairseq-fixed {VERSION}, which tupe patches: {fairseq.__version__} is installed.")

    for owner, name, ours in PATCHES:
        theirs = getattr(owner, name, None)
        setattr(owner, name, ours)
        importers = [module for where, module in sys.modules.items() if where.startswith("fairseq")]
        for module in importers:
            if theirs is not None and getattr(module, name, None) is theirs:
                setattr(module, name, ours)

    # `--shorten-method` leaves one token too many; fairseq's other tasks do not prepend <s>
    masked_lm.maybe_shorten_dataset = batches.shorten_dataset
    # resumed runs lose the number of epochs in which the loss has not fallen
    LR_SCHEDULER_REGISTRY["reduce_lr_on_plateau"] = optimizers.ReduceLROnPlateauLRSchedule
    atexit.register(batches.stop_prefetching)
    atexit.register(launch.leave_gloo)


def before_building(cfg: Any, task: FairseqTask) -> None:
    """Compare the dictionaries of a task with those of a model's configuration, before the model is built.

    The hub interface, `fairseq-validate` and `fairseq-generate` build a model from a checkpoint's configuration.

    Raises:
        UserError: the dictionaries differ.
    """
    if "fairseq_cli" in sys.modules:  # imported after the plugin
        install()
    checkpoints.refuse_mixed({name: getattr(cfg, name, None) for name in checkpoints.FACTS}, task)
