"""fairseq's tasks in a run of ours: classes of our own, one of which takes the place of the class of such a task."""

import functools
import math
import os
from collections.abc import Callable
from typing import Any

from fairseq import criterions, utils
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask

from tupe.data.batches import MaskedBatches
from tupe.errors import UserError
from tupe.fairseq_patches.data import check_lengths, how_to_make
from tupe.fairseq_patches.patching import check, patched, patches
from tupe.fairseq_patches.ranges import NO_WEIGHTS, refuse_out_of_range
from tupe.fairseq_patches.scope import MARK, chosen, in_scope
from tupe.fairseq_patches.uneven import zero

#: The methods of fairseq's tasks that the classes here override, with their first parameters.
OVERRIDDEN = {
    FairseqTask: {
        "build_generator": "self models args",
        "load_dataset": "self split",
        "filter_indices_by_size": "self indices dataset max_positions",
        "get_batch_iterator": "self dataset",
        "train_step": "self sample model criterion optimizer update_num ignore_grad",
        "valid_step": "self sample model criterion",
        "build_dataset_for_inference": "self src_tokens src_lengths",
    },
    MaskedLMTask: {"load_dataset": "self split epoch", "_regular_dataset": "self src_dataset target_dataset"},
}


class TupeTask(FairseqTask):
    """Differences of every task from fairseq's: the base of our tasks, put before fairseq's class by `put_in_scope`."""

    def build_dataset_for_inference(self, *args, **kwargs):
        """Pad sources where the task does; `fairseq-interactive` pads them on the left without asking it."""
        dataset = super().build_dataset_for_inference(*args, **kwargs)
        if hasattr(self.cfg, "left_pad_source"):
            dataset.left_pad_source = self.cfg.left_pad_source
        return dataset

    def build_generator(self, models, args, *others, **kwargs):
        """Refuse what a search cannot do, also for a generator that no command builds.

        Raises:
            UserError: for such numbers, and for what reads weights of attention.
        """
        for option in ("print_alignment", "replace_unk"):
            if getattr(args, option, None):
                raise UserError(f"--{option.replace('_', '-')} needs {NO_WEIGHTS}: leave it out")
        refuse_out_of_range({"generation": args}, ["generation"])
        longest = min([model.max_decoder_positions() - 1 for model in models], default=math.inf)
        if not getattr(args, "max_len_a", 0):
            longest = min(longest, getattr(args, "max_len_b", longest))
        if getattr(args, "min_len", 0) > longest:
            raise UserError(f"--min-len {args.min_len} is above the longest translation, {longest} tokens: lower it")
        return super().build_generator(models, args, *others, **kwargs)

    def load_dataset(self, split, *args, **kwargs):
        """Raises `UserError` for a split that does not exist, as of `--gen-subset`."""
        try:
            with patched():
                return super().load_dataset(split, *args, **kwargs)
        except FileNotFoundError as error:
            raise UserError(f"there is no split '{split}' in {self.cfg.data} ({error}): give one that is") from error

    def filter_indices_by_size(self, indices, dataset, max_positions=None, ignore_invalid_inputs=False):
        check_lengths(indices, dataset, max_positions, ignore_invalid_inputs)
        return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """Start the data workers again in every epoch, and keep the last batch.

        fairseq keeps the workers, with a copy of the data set that stays in the epoch in which they started: with
        `num_workers` above 0, all epochs would see the masks of that epoch.
        """
        put_in_scope(dataset)  # for `data.last_batch_stays`
        with patched():
            iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        iterator.persistent_workers = False
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


class TupeMaskedLMTask(TupeTask):
    """Before fairseq's `masked_lm`: its splits are looked for first, and batches carry the positions of masks."""

    def load_dataset(self, split, epoch=1, **kwargs):
        """Raises `UserError` for batches without masks, and for a split that does not exist, or without tokens, which
        cannot be mapped into memory.
        """
        if getattr(self.cfg, "d2v2_multi", False):
            raise UserError("--d2v2-multi makes batches of data2vec, which have no masks: leave it out")
        folders = utils.split_paths(self.cfg.data)
        folder = folders[(epoch - 1) % len(folders)]  # one folder an epoch, in turn
        path = os.path.abspath(os.path.join(folder, split))
        if not any(os.path.exists(path + suffix) for suffix in ("", ".idx", ".bin")):
            raise UserError(f"there is no split '{split}' ({path}.bin): {how_to_make(folder)}")
        if os.path.isfile(path + ".bin") and os.path.getsize(path + ".bin") == 0:
            raise UserError(f"the split '{split}' has no tokens ({path}.bin is empty): {how_to_make(folder)}")
        if self.cfg.mask_whole_words:
            self.args = self  # fairseq hands `args`, which tasks no longer have, to `get_whole_word_mask`
        super().load_dataset(split, epoch=epoch, **kwargs)

    def _regular_dataset(self, *datasets):
        """Batches without `masked_tokens` make the criterion ask the GPU for them, and wait."""
        dataset = super()._regular_dataset(*datasets)
        return MaskedBatches(dataset.defn, dataset.sizes, self.source_dictionary)


for _class, _methods in OVERRIDDEN.items():
    for _name, _takes in _methods.items():
        check(_class, _name, _takes)


def put_in_scope(part: Any) -> None:
    """Tell an object that it takes part in a run of ours. A task of fairseq's then behaves as a `TupeTask`."""
    if isinstance(part, FairseqTask):
        part.__class__ = _of_ours(type(part))
    elif part is not None:
        setattr(part, MARK, True)


@functools.cache
def _of_ours(task: type[FairseqTask]) -> type[FairseqTask]:
    """The class `task` with our overrides before it, under its own name."""
    if issubclass(task, TupeTask):
        return task
    masked = getattr(task, "load_dataset", None) is MaskedLMTask.load_dataset  # not one that somebody overrode
    names = {"__module__": task.__module__, "__qualname__": task.__qualname__, "__doc__": task.__doc__}
    return type(task.__name__, (TupeMaskedLMTask if masked else TupeTask, task), names)


@patches(
    criterions, "build_criterion", "cfg task", only_for=lambda cfg, *args, **kwargs: in_scope(chosen("criterion", cfg))
)
def tells_the_task(original: Callable) -> Callable:
    """A task that builds a criterion of ours is in scope; models of ours tell it in `building.before_building`."""

    def build_criterion(cfg, task, *args, **kwargs):
        put_in_scope(task)
        return original(cfg, task, *args, **kwargs)

    return build_criterion
