"""Data for pre-training that is not there or is empty, and sequences longer than the model's positions."""

from __future__ import annotations

import glob
import os

from fairseq import tasks, utils
from fairseq.data import data_utils
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends


@mends(tasks, "setup_task")
def data_is_there(original):
    """A missing folder or dictionary of `masked_lm` otherwise ends in `open`, deep in `Dictionary`."""

    def setup_task(cfg, **kwargs):
        if getattr(cfg, "_name", None) == "masked_lm":
            folders = utils.split_paths(cfg.data)
            for folder in folders:
                if not os.path.isdir(folder):
                    raise UserError(f"there is no data folder {os.path.abspath(folder)}: {_how_to_make(folder)}")
            dictionary = os.path.join(folders[0], "dict.txt")
            if not os.path.isfile(dictionary):
                raise UserError(f"there is no dictionary {os.path.abspath(dictionary)}: {_how_to_make(folders[0])}")
        return original(cfg, **kwargs)

    return setup_task


@mends(MaskedLMTask, "load_dataset")
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


@mends(MaskedLMTask, "max_positions")
def blocks_have_a_length(original):
    """Official fairseq 0.12.2 does not say how long the blocks are, from which a model takes its `max_positions`."""

    def max_positions(self):
        return original(self) or self.cfg.tokens_per_sample

    return max_positions


@mends(FairseqTask, "filter_indices_by_size")
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


@mends(data_utils, "batch_by_size")
def last_batch_stays(original):
    """Newer fairseq drops the last batch unless `required_batch_size_multiple` (8) divides it, also in validation."""

    def batch_by_size(indices, *args, **kwargs):
        batches = original(indices, *args, **kwargs)
        dropped = indices[sum(map(len, batches)) :]
        return [*batches, dropped] if len(dropped) else batches

    return batch_by_size
