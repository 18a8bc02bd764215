"""Data that is not there, is empty or is damaged, and sequences longer than the model's positions."""

import itertools
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import tasks, utils
from fairseq.data import BaseWrapperDataset, FairseqDataset, data_utils, indexed_dataset

from tupe.data.binary import check_indexed, is_indexed
from tupe.errors import UserError
from tupe.fairseq_patches.patching import patches
from tupe.fairseq_patches.scope import in_scope, self_in_scope

logger = logging.getLogger(__name__)


@patches(tasks, "setup_task", "cfg")
def data_is_there(original):
    """A missing folder or dictionary of `masked_lm` ends in `open`, deep in `Dictionary`: it is named, where it fails.

    The task is made before anything says whose run it is.
    """

    def setup_task(cfg, *args, **kwargs):
        try:
            if getattr(cfg, "_name", None) == "translation":
                _refuse_without_pair(cfg)
            return original(cfg, *args, **kwargs)
        except OSError as error:
            if getattr(cfg, "_name", None) in ("masked_lm", "tupe_multilingual_masked_lm"):
                refuse_missing(cfg.data, error)
            if getattr(cfg, "_name", None) == "translation" and error.filename:
                raise UserError(
                    f"there is no {error.filename}: give the folder of a translation's data, with a dictionary a "
                    "language, or a checkpoint that was trained on these"
                ) from error
            raise

    return setup_task


def _refuse_without_pair(cfg: Any) -> None:
    """Raise a `UserError` for a translation's data whose languages neither the task nor a file's name says."""
    if cfg.source_lang is not None and cfg.target_lang is not None:
        return
    folder = (utils.split_paths(cfg.data) if cfg.data else [""])[0]
    if None in data_utils.infer_language_pair(folder):
        raise UserError(
            f"{os.path.abspath(folder)} has no data of a translation, such as train.en-de.en.idx, whose name says the "
            "languages: give a folder that `tupe prepare-translation` wrote, or the languages with -s and -t "
            "(task.source_lang, task.target_lang)"
        )


def refuse_missing(data: str, error: OSError | None = None) -> None:
    """Raise a `UserError` unless all folders of `data` are there, the first with a dictionary."""
    folders = utils.split_paths(data)
    for folder in folders:
        if not os.path.isdir(folder):
            raise UserError(f"there is no data folder {os.path.abspath(folder)}: {how_to_make(folder)}") from error
    dictionary = os.path.join(folders[0], "dict.txt")
    if not os.path.isfile(dictionary):
        raise UserError(f"there is no dictionary {os.path.abspath(dictionary)}: {how_to_make(folders[0])}") from error


def _dictionary_in_scope(path, dictionary=None, *args, **kwargs):
    return in_scope(dictionary)


@patches(data_utils, "load_indexed_dataset", "path dictionary dataset_impl combine", only_for=_dictionary_in_scope)
def data_is_whole(original):
    """Damage in the middle of an index loads, and a token that the dictionary lacks fails in the embedding, later."""

    def load_indexed_dataset(path, dictionary=None, dataset_impl=None, combine=False, **kwargs):
        for number in itertools.count() if combine else [0]:
            part = Path(f"{path}{number or ''}")  # with `combine`, fairseq appends train1, train2, ... to train
            if not is_indexed(part):
                _refuse_unknown_index(part)
                break
            check_indexed(part, "`fairseq-preprocess`", symbols=len(dictionary))
        return original(path, dictionary, dataset_impl, combine, **kwargs)

    return load_indexed_dataset


def _refuse_unknown_index(prefix: Path) -> None:
    index = Path(f"{prefix}.idx")
    if index.exists() and indexed_dataset.infer_dataset_impl(str(prefix)) is None:
        raise UserError(f"{index} is no index that fairseq knows, or has no .bin beside it: prepare the data again.")


def how_to_make(folder: str) -> str:
    return (
        "make it from text, one sentence a line, with `fairseq-preprocess --only-source --trainpref TRAIN.txt "
        f"--validpref VALID.txt --destdir {folder}`"
    )


def check_lengths(indices, dataset, max_positions, training: bool) -> None:
    """Check that sequences fit into `max_positions`, of which fairseq names one that does not.

    Raises:
        UserError: if any is longer, or in training, which skips them, if most are.
    """
    kept, ignored = dataset.filter_indices_by_size(indices, max_positions)
    if len(ignored) > (len(kept) if training else 0):
        longest = max(dataset.size(index) for index in ignored)
        raise UserError(
            f"{len(ignored)} of {len(indices)} sequences are longer than max_positions={max_positions} (up to "
            f"{longest} tokens): raise --max-positions (under Hydra +model.max_positions), lower "
            "--tokens-per-sample, or leave out a few with --skip-invalid-size-inputs-valid-test"
        )
    if len(ignored):
        _tell_unused(dataset, kept, ignored, max_positions)


def _tell_unused(dataset, kept, ignored, max_positions) -> None:
    """Warn of sequences that training skips. fairseq names ten of them, and not how much of the data they are."""
    unused, used = (int(np.sum([dataset.size(index) for index in indices])) for indices in (ignored, kept))
    logger.warning(
        f"{unused / (unused + used):.2%} of the tokens are never used: {len(ignored):,} of "
        f"{len(ignored) + len(kept):,} sequences are longer than max_positions={max_positions}; raise "
        "--tokens-per-sample and --max-positions, cut lines by --sample-break-mode none, or prepare shorter ones"
    )


@patches(FairseqDataset, "batch_by_size", "self indices", only_for=self_in_scope)
@patches(BaseWrapperDataset, "batch_by_size", "self indices", only_for=self_in_scope)
def last_batch_stays(original):
    """Newer fairseq drops the last batch unless `required_batch_size_multiple` (8) divides it, also in validation."""

    def batch_by_size(self, indices, *args, **kwargs):
        batches = original(self, indices, *args, **kwargs)
        dropped = indices[sum(map(len, batches)) :]
        return [*batches, dropped] if len(dropped) else batches

    return batch_by_size
