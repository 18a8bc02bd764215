"""Data for pre-training that is not there or is empty, and sequences longer than the model's positions."""

from __future__ import annotations

import glob
import os

from fairseq import models, tasks, utils
from fairseq.data import BaseWrapperDataset, FairseqDataset
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import builds_ours, of_ours, serve


@mends(tasks, "setup_task", "cfg")
def data_is_there(original):
    """A missing folder or dictionary of `masked_lm` ends in `open`, deep in `Dictionary`: it is named, where it fails.

    The task is made before anything says whose run it is.
    """

    def setup_task(cfg, *args, **kwargs):
        try:
            return original(cfg, *args, **kwargs)
        except OSError as error:
            if getattr(cfg, "_name", None) in ("masked_lm", "tupe_multilingual_masked_lm"):
                _refuse_missing(cfg.data, error)
            raise

    return setup_task


@mends(models, "build_model", "cfg task", only_for=builds_ours)
def every_folder_is_there(original):
    """A folder that a later epoch would miss."""

    def build_model(cfg, task, *args, **kwargs):
        if isinstance(task, MaskedLMTask):
            _refuse_missing(task.cfg.data)
        return original(cfg, task, *args, **kwargs)

    return build_model


def _refuse_missing(data, error=None):
    folders = utils.split_paths(data)
    for folder in folders:
        if not os.path.isdir(folder):
            raise UserError(f"there is no data folder {os.path.abspath(folder)}: {_how_to_make(folder)}") from error
    dictionary = os.path.join(folders[0], "dict.txt")
    if not os.path.isfile(dictionary):
        raise UserError(f"there is no dictionary {os.path.abspath(dictionary)}: {_how_to_make(folders[0])}") from error


@mends(MaskedLMTask, "load_dataset", "self split epoch", only_for=of_ours)
def split_is_there(original):
    """A split that does not exist, or that has no tokens, which cannot be mapped into memory."""

    def load_dataset(self, split, epoch=1, **kwargs):
        folders = utils.split_paths(self.cfg.data)
        folder = folders[(epoch - 1) % len(folders)]  # one folder an epoch, in turn
        path = os.path.abspath(os.path.join(folder, split))
        if not glob.glob(glob.escape(path) + ".*") and not os.path.exists(path):
            raise UserError(f"there is no split '{split}' ({path}.bin): {_how_to_make(folder)}")
        if os.path.isfile(path + ".bin") and os.path.getsize(path + ".bin") == 0:
            raise UserError(f"the split '{split}' has no tokens ({path}.bin is empty): {_how_to_make(folder)}")
        return original(self, split, epoch=epoch, **kwargs)

    return load_dataset


def _how_to_make(folder: str) -> str:
    return (
        "make it from text, one sentence a line, with `fairseq-preprocess --only-source --trainpref TRAIN.txt "
        f"--validpref VALID.txt --destdir {folder}`"
    )


@mends(MaskedLMTask, "max_positions", "self", only_for=of_ours)
def blocks_have_a_length(original):
    """Official fairseq 0.12.2 does not say how long the blocks are, from which a model takes its `max_positions`."""

    def max_positions(self):
        return original(self) or self.cfg.tokens_per_sample

    return max_positions


@mends(FairseqTask, "filter_indices_by_size", "self indices dataset max_positions", only_for=of_ours)
def lengths_fit(original):
    """Sequences above `max_positions`: fairseq names one of them, and in training skips even most of the data."""

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        kept, ignored = dataset.filter_indices_by_size(indices, max_positions)
        if len(ignored) > (len(kept) if ignore_invalid_inputs else 0):
            longest = max(dataset.size(index) for index in ignored)
            raise UserError(
                f"{len(ignored)} of {len(indices)} sequences are longer than max_positions={max_positions} (up to "
                f"{longest} tokens): raise --max-positions (under Hydra +model.max_positions), lower "
                "--tokens-per-sample, shorten them with --shorten-method truncate, or leave out a "
                "few with --skip-invalid-size-inputs-valid-test"
            )
        return original(self, indices, dataset, max_positions, ignore_invalid_inputs)

    return filter_indices_by_size


@mends(FairseqTask, "get_batch_iterator", "self dataset", only_for=of_ours)
def data_of_ours(original):
    """The data sets of a run of ours serve it, for `last_batch_stays`."""

    def get_batch_iterator(self, dataset, *args, **kwargs):
        serve(dataset)
        return original(self, dataset, *args, **kwargs)

    return get_batch_iterator


@mends(FairseqDataset, "batch_by_size", "self indices", only_for=of_ours)
@mends(BaseWrapperDataset, "batch_by_size", "self indices", only_for=of_ours)
def last_batch_stays(original):
    """Newer fairseq drops the last batch unless `required_batch_size_multiple` (8) divides it, also in validation."""

    def batch_by_size(self, indices, *args, **kwargs):
        batches = original(self, indices, *args, **kwargs)
        dropped = indices[sum(map(len, batches)) :]
        return [*batches, dropped] if len(dropped) else batches

    return batch_by_size
