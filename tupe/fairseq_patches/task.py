"""Tasks in a run of ours: the base of our own classes, which is put before the class of a task of fairseq's too."""

import contextlib
import functools
import itertools
import logging
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import criterions, utils
from fairseq.data import BaseWrapperDataset, Dictionary, FairseqDataset, data_utils, indexed_dataset
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import FairseqTask, masked_lm
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.translation import TranslationTask

from tupe.data.batches import MaskedBatches
from tupe.data.binary import check_indexed, check_open_files, index_and_data, is_indexed
from tupe.data.length_order import with_last_batch
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import prepared_by, refuse_other_dictionary, refuse_other_target, special_symbols
from tupe.fairseq_patches.configuration import explain, how_to_make, refuse_missing
from tupe.fairseq_patches.patching import install, overriding, patched, patches, replaced
from tupe.fairseq_patches.ranges import NO_WEIGHTS, refuse_out_of_range
from tupe.fairseq_patches.scope import MARK, REGISTERED, chosen, in_scope

logger = logging.getLogger(__name__)

_SENTENCEPIECE, _WORDPIECE = "\u2581", "##"
_OF_POSITIONS = "--max-positions (under Hydra +model.max_positions)"
_BYTE_LEVEL = "\u0120"  # how GPT-2's bytes write a space


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

    def build_generator(self, models, args, *others, **kwargs):
        """Refuse what a search cannot do, also for a generator that no command builds.

        Raises:
            UserError: for such numbers, and for options that need weights of attention or a language model.
        """
        for option in ("print_alignment", "replace_unk"):
            if getattr(args, option, None):
                raise UserError(f"--{option.replace('_', '-')} needs {NO_WEIGHTS}: leave it out")
        language_model = (kwargs.get("extra_gen_cls_kwargs") or {}).get("lm_model")
        if in_scope(language_model):
            raise UserError("--lm-path names a model of TUPE, and none predicts the next word alone: leave it out")
        unread = [name for name in ("lm_path", "lm_weight") if language_model is None and getattr(args, name, None)]
        if unread:
            option = unread[0].replace("_", "-")
            raise UserError(
                f"--{option} needs a language model, which fairseq-generate alone takes, by --lm-path: give one there, "
                "or leave this out"
            )
        refuse_out_of_range({"generation": args}, ["generation"])
        longest = min([model.max_decoder_positions() - 1 for model in models], default=math.inf)
        if not getattr(args, "max_len_a", 0):
            longest = min(longest, getattr(args, "max_len_b", longest))
        if getattr(args, "min_len", 0) > longest:
            raise UserError(f"--min-len {args.min_len} is above the longest translation, {longest} tokens: lower it")
        return super().build_generator(models, args, *others, **kwargs)

    def inference_step(self, generator, models, sample, *args, **kwargs):
        """Leave `id` out of the sample: fairseq's diverse beam search indexes the batch with it."""
        sample = {key: part for key, part in sample.items() if key != "id"}
        return super().inference_step(generator, models, sample, *args, **kwargs)

    def load_dataset(self, split, *args, **kwargs):
        """Raise `UserError` for a split that does not exist, as of `--gen-subset`."""
        try:
            with patched():
                return super().load_dataset(split, *args, **kwargs)
        except FileNotFoundError as error:
            impl = getattr(self.cfg, "dataset_impl", None)
            what = "give one that is" + ("" if impl is None else f", or leave out --dataset-impl {impl}")
            raise UserError(f"there is no split '{split}' in {self.cfg.data} ({error}): {what}") from error

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        check_lengths(indices, dataset, max_positions, ignore_invalid_inputs)
        return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)

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

        Raises:
            UserError: in a process that never had a batch.
        """
        if sample:
            self.validated_last = sample
            return super().valid_step(sample, model, criterion, **kwargs)
        if not hasattr(self, "validated_last"):
            raise UserError("there are fewer batches than processes: lower --batch-size or start fewer processes")
        loss, size, log = super().valid_step(self.validated_last, model, criterion, **kwargs)
        return zero(loss), zero(size), {key: zero(value) for key, value in log.items()}


@overriding(MaskedLMTask)
class TupeMaskedLMTask(TupeTask):
    """Before fairseq's `masked_lm`: its splits are looked for first, and batches carry the positions of masks.

    Vocabularies of ours say themselves where words begin, for which fairseq asks the tokenizer of `--bpe` in `args`,
    which its tasks no longer have.
    """

    args = None

    def load_dataset(self, split, *args, **kwargs):
        """Let a vocabulary of ours say where words begin."""
        with replaced(masked_lm, "get_whole_word_mask", lambda args, dictionary: word_begins(dictionary)):
            super().load_dataset(split, *args, **kwargs)

    def _load_dataset_split(self, split, epoch, combine):
        """Raise `UserError` for a split that does not exist, or without tokens, which cannot be mapped into memory."""
        folders = utils.split_paths(self.cfg.data)
        folder = folders[(epoch - 1) % len(folders)]  # one folder an epoch, in turn
        path = os.path.abspath(os.path.join(folder, split))
        if not any(os.path.exists(path + suffix) for suffix in ("", ".idx", ".bin")):
            there = ", ".join(sorted({found.stem for found in Path(folder).glob("*.idx")}))
            mending = f"name one of the splits there ({there}), or prepare the data again with it"
            raise UserError(f"there is no split '{split}' ({path}.bin): {mending if there else how_to_make(folder)}")
        if os.path.isfile(path + ".bin") and os.path.getsize(path + ".bin") == 0:
            raise UserError(f"the split '{split}' has no tokens ({path}.bin is empty): {how_to_make(folder)}")
        return super()._load_dataset_split(split, epoch, combine)

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


_OF_WORDS = ("cross_entropy", "label_smoothed_cross_entropy")
#: Task -> the criterions of fairseq and of this plugin that can train models of ours for it; those of others all may.
_CRITERIONS = {
    **dict.fromkeys(("MaskedLMTask", "MultilingualMaskedLMTask"), ("tupe_masked_lm", "tupe_electra", "masked_lm")),
    "TranslationTask": (*_OF_WORDS, "label_smoothed_cross_entropy_with_rdrop"),
    "TupeSentencePredictionTask": ("tupe_sentence_prediction", "sentence_prediction"),
    "TupeTokenClassificationTask": ("tupe_token_classification",),
    "TupeQuestionAnsweringTask": ("tupe_question_answering",),
}


def _refuse_other_criterion(cfg: Any, task: FairseqTask) -> None:
    """Raise a `UserError` for a criterion of another kind of model, such as one of speech, which fails in a batch."""
    known, kind = _CRITERIONS.get(type(task).__name__), chosen("criterion", cfg)
    if known is None or kind is None or kind.__module__.partition(".")[0] not in ("fairseq", "tupe"):
        return
    name = next(name for registry in REGISTERED["criterion"] for name in registry if registry[name] is kind)
    if name not in known:
        raise UserError(
            f"the criterion {name} does not fit this task, {getattr(task.cfg, '_name', type(task).__name__)}, with a "
            f"model of TUPE: choose one of {', '.join(known)} (--criterion, criterion._name)"
        )


@patches(criterions, "build_criterion", "cfg task")
def known_criterion(original):
    """Put the task of a criterion of ours in scope, also where the model is fairseq's."""

    def build_criterion(cfg, task, *args, **kwargs):
        if in_scope(chosen("criterion", cfg)):
            put_in_scope(task)
        if in_scope(task):
            _refuse_other_criterion(cfg, task)
        try:
            return original(cfg, task, *args, **kwargs)
        except Exception as error:
            explain("criterion", cfg, error)
            raise

    return build_criterion


def before_building(model: type, cfg: Any, task: FairseqTask) -> None:
    """Check that `model` can be built from `cfg` for `task`, and mark the task and its dictionaries as ours.

    Raises:
        UserError: for values out of range, data folders that a later epoch would miss, a dictionary that is not the
            checkpoint's (the hub interface and `fairseq-validate` build a model from a checkpoint's configuration), an
            encoder that is to translate, and no task.
    """
    if task is None:
        raise UserError(f"{model.__name__}.build_model takes a configuration and a task, but task is None: give both")
    if "fairseq_cli" in sys.modules:  # imported after the plugin
        install()
    refuse_out_of_range({"model": cfg, "task": getattr(task, "cfg", None)}, ["model", "task"])
    put_in_scope(task)
    for side in ("source_dictionary", "target_dictionary", "label_dictionary"):
        with contextlib.suppress(AttributeError, NotImplementedError):  # a task of somebody's may have none
            put_in_scope(getattr(task, side))  # for `data_is_whole`
    if isinstance(task, MaskedLMTask):
        refuse_missing(task.cfg.data)
    checksum = getattr(cfg, "dictionary_sha256", None)
    if checksum is not None:
        refuse_other_dictionary(checksum, task.source_dictionary, prepared_by(task))
    refuse_other_target(cfg, task)
    if isinstance(task, TranslationTask) and not issubclass(model, FairseqEncoderDecoderModel):
        raise UserError(
            "the model is an encoder, which does not translate: give one of `tupe systems --translation`, or a "
            "checkpoint of scripts/translate_train.sh"
        )


def _dictionary_in_scope(path, dictionary=None, *args, **kwargs):
    return in_scope(dictionary)


@patches(data_utils, "load_indexed_dataset", "path dictionary dataset_impl combine", only_for=_dictionary_in_scope)
def data_is_whole(original):
    """Check the index, of which damage loads, and the tokens, of which unknown ones fail later, in the embedding."""

    def load_indexed_dataset(path, dictionary=None, dataset_impl=None, combine=False, **kwargs):
        for number in itertools.count() if combine else [0]:
            part = Path(f"{path}{number or ''}")  # with `combine`, fairseq appends train1, train2, ... to train
            if not is_indexed(part):
                _refuse_unknown_index(part)
                break
            if dataset_impl == "raw" and part.is_file():
                break  # a text beside binary data
            if dataset_impl not in (None, "mmap"):
                raise UserError(f"{part}.idx is of the format mmap, not {dataset_impl}: leave out --dataset-impl")
            check_indexed(part, "`fairseq-preprocess`", symbols=len(dictionary))
            check_open_files(part)
        return original(path, dictionary, dataset_impl, combine, **kwargs)

    return load_indexed_dataset


def _refuse_unknown_index(prefix: Path) -> None:
    index, data = index_and_data(prefix)  # a folder in place of the data ends in a traceback beside the sentence
    if index.exists() and (not data.is_file() or indexed_dataset.infer_dataset_impl(str(prefix)) is None):
        raise UserError(f"{index} is no index that fairseq knows, or has no .bin beside it: prepare the data again.")


def check_lengths(indices, dataset, max_positions, training: bool) -> None:
    """Check that sequences fit into `max_positions`, of which fairseq names one that does not.

    Raises:
        UserError: if any is longer, or in training, which skips them, if most are.
    """
    kept, ignored = dataset.filter_indices_by_size(indices, max_positions)
    if len(ignored) > (len(kept) if training else 0):
        longest = np.max([dataset.size(index) for index in ignored])
        pairs = isinstance(max_positions, tuple)
        limits = "--max-source-positions or --max-target-positions" if pairs else _OF_POSITIONS
        batch = " and --max-tokens where it is as low" if training else ""  # fairseq takes the lower of the two
        raise UserError(
            f"{len(ignored)} of {len(indices)} sequences are longer than max_positions={max_positions} (up to "
            f"{longest} tokens): raise {limits}{batch}{'' if pairs else ', lower --tokens-per-sample'}, or leave out a "
            "few with --skip-invalid-size-inputs-valid-test"
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


class WordBegins:
    """Where words begin: at some symbols, and behind `<s>` and `</s>`, though a text may begin within a word.

    fairseq's data set of masks asks a tensor for it, by `gather`.
    """

    def __init__(self, begins: torch.Tensor, ends: torch.Tensor) -> None:
        self.begins, self.ends = begins, ends

    def gather(self, dim: int, tokens: torch.Tensor) -> torch.Tensor:
        """Return whether each of `tokens` `(n,)` begins a word, uint8 `(n,)`."""
        found = self.begins.gather(dim, tokens)
        found[1:] |= self.ends.gather(dim, tokens)[:-1]
        return found


def word_begins(dictionary: Dictionary) -> WordBegins:
    """Return where words begin, of a vocabulary's symbols, uint8 `(V,)`; special symbols are words of their own.

    Which of the three kinds a vocabulary is says the mark that most of its symbols have: byte-level ones may have a
    piece `##` too.

    Raises:
        UserError: if the symbols follow none of SentencePiece, WordPiece and byte-level BPE.
    """
    symbols = dictionary.symbols
    marks = (_SENTENCEPIECE, _WORDPIECE, _BYTE_LEVEL)
    mark = max(marks, key=lambda mark: sum(symbol.startswith(mark) for symbol in symbols))
    begins = [symbol.startswith(mark) != (mark == _WORDPIECE) for symbol in symbols]
    if not any(symbol.startswith(mark) for symbol in symbols):
        raise UserError(
            f"mask_whole_words needs a vocabulary that says where words begin, by {_SENTENCEPIECE} (SentencePiece), "
            f"{_WORDPIECE} (WordPiece) or {_BYTE_LEVEL} (byte-level BPE), but no symbol of dict.txt begins so: leave "
            "mask_whole_words out."
        )
    ends = [number in (dictionary.bos(), dictionary.eos()) for number in range(len(symbols))]
    found = [a or b for a, b in zip(begins, special_symbols(dictionary))]
    return WordBegins(*(torch.tensor(of, dtype=torch.uint8) for of in (found, ends)))
