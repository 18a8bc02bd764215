"""Keep the order of a run's batches when it resumes with another batch size, accumulation or number of processes."""

import functools
import logging
from typing import Any

import numpy as np
from fairseq.data import iterators
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from tupe.patches.batches import batch_by_size

logger = logging.getLogger(__name__)

NUMBERS = "batches_per_update"
_EpochBatchIterator = iterators.EpochBatchIterator
_get_batch_iterator = FairseqTask.get_batch_iterator


def get_batch_iterator(self, *args, **kwargs):
    """Start the data workers again in every epoch, and store how to build batches of another size.

    fairseq keeps the workers, whose copy of the data set stays in the epoch in which they started: with `num_workers`
    above 0, all epochs would have the masks of that epoch. With `curriculum`, all would have its order.
    """
    iterator = _get_batch_iterator(self, *args, **kwargs)
    iterator.persistent_workers = iterator.reuse_dataloader = False
    iterator.rebuild = functools.partial(_get_batch_iterator, self, *args, **kwargs)
    return iterator


def split_of(trainer: Trainer) -> dict[str, Any]:
    """Return the settings of a run that decide which sequences an update has.

    `batches_per_update` counts the batches of all processes, per epoch; the last count holds for all later epochs.
    """
    cfg, processes = trainer.cfg, trainer.data_parallel_world_size
    return {
        "seed": cfg.common.seed,
        "batch_size": cfg.dataset.batch_size,
        "max_tokens": cfg.dataset.max_tokens,
        NUMBERS: [processes * accumulated for accumulated in cfg.optimization.update_freq],
        "processes": processes,
    }


def _same_updates(began: dict[str, Any], split: dict[str, Any]) -> bool:
    """Return whether `split` has the updates of `began`. Batches limited by `max_tokens` can be cut, but not joined."""

    def sizes(of: dict[str, Any]) -> list[list[int]]:
        return [[number * (of[size] or 0) for number in of[NUMBERS]] for size in ("batch_size", "max_tokens")]

    finer = all(here % there == 0 for here, there in zip(split[NUMBERS], began[NUMBERS]))
    return began["seed"] == split["seed"] and sizes(began) == sizes(split) and (finer or not split["max_tokens"])


def _in_update(split: dict[str, Any], epoch: int) -> int:
    """Return how many batches an update of an epoch has."""
    return split[NUMBERS][min(epoch, len(split[NUMBERS])) - 1]


class EpochBatchIterator(_EpochBatchIterator):
    """fairseq's iterator, whose position in an epoch stays valid for another split of the run.

    fairseq saves how many batches one process has read. A run that resumes with another batch size or number of
    processes builds other batches in another order, so it would leave out some sequences and repeat others.

    If a run resumes with the same updates but another split, each update is cut into batches of this run, in the order
    in which the run began, in all epochs. Otherwise the sequences that remain of the epoch are cut into batches.
    """

    #: Settings of this run, set by the trainer, and the settings whose order is kept from epoch `resumed` on.
    split = began = rebuild = None
    resumed = 0
    #: The batches of all processes, if they are cut.
    cut = None

    def ordered_batches(self, epoch, fix_batches_to_gpus, shuffle):
        """Return the batches of this process in an epoch."""
        self.cut = None
        if not self._keeps_order(epoch):
            return super().ordered_batches(epoch, fix_batches_to_gpus, shuffle)
        self.cut = self._cut(self.source.ordered_batches(epoch, False, shuffle), epoch)
        return list(iterators.ShardedIterator(self.cut, self.num_shards, self.shard_id, fill_value=[]))

    def __len__(self):
        return super().__len__() if self.cut is None else -(-len(self.cut) // self.num_shards)

    def state_dict(self):
        """Return fairseq's state, the split of its order and, if batches are cut, its position in samples."""
        state = super().state_dict()
        state["split"] = self.began if self._keeps_order(state["epoch"]) else self.split
        if self.cut is not None:
            state["samples"] = sum(map(len, self.cut[: state["iterations_in_epoch"] * self.num_shards]))
        return state

    def load_state_dict(self, state):
        """Restore the position of a run that may have had another split."""
        began, place = state.get("split", self.split), state.get("iterations_in_epoch", 0)
        if self.rebuild and (began != self.split or "samples" in state):  # some tasks build the iterator themselves
            self.began, self.resumed = began, state["epoch"]
            if not _same_updates(began, self.split) and self.shard_id == 0:
                left = "the sequences that are left" if began["seed"] == self.split["seed"] else "sequences drawn again"
                logger.warning(f"Resumed with {self.split}, not {began}: epoch {self.resumed} ends with {left}.")
            limits = {"max_tokens": began["max_tokens"], "max_sentences": began["batch_size"]}
            self.source = self.rebuild(**limits, num_shards=1, shard_id=0, disable_iterator_cache=True)
            batches = self.source.ordered_batches(self.resumed, False, state.get("shuffle", True))
            self.samples = state.get("samples", sum(map(len, batches[: place * began["processes"]])))
            if place:
                here = _in_update(self.split, self.resumed)
                ends = np.cumsum([len(batch) for batch in self._cut(batches, self.resumed)])
                place = int(np.searchsorted(ends, self.samples) // here + 1) * here // self.num_shards
        self.dataset.set_epoch(state["epoch"])  # data workers may start at once, each with its copy of the data set
        super().load_state_dict({**state, "iterations_in_epoch": place})

    def _keeps_order(self, epoch: int) -> bool:
        """Return whether an epoch has the order in which the run began."""
        return self.began is not None and (epoch == self.resumed or _same_updates(self.began, self.split))

    def _cut(self, batches: list, epoch: int) -> list:
        """Cut batches of the split in which the run began into batches of this run."""
        here, there = _in_update(self.split, epoch), _in_update(self.began, epoch)
        # false if a run with another batch stopped within one of these updates
        whole = epoch != self.resumed or self.samples in np.cumsum([0, *map(len, batches)])[::there]
        if whole and _same_updates(self.began, self.split):
            number = 1 if here % there == 0 else there
            joined = [np.concatenate(batches[first : first + number]) for first in range(0, len(batches), number)]
            return [part for batch in joined for part in np.array_split(batch, here * number // there)]
        limits = {"max_tokens": self.split["max_tokens"], "max_sentences": self.split["batch_size"]}
        parts = np.split(np.concatenate(batches), [self.samples])
        seen, left = (batch_by_size(self.dataset, part, **limits) for part in parts)
        return [*seen, *[[]] * (-len(seen) % here), *left]  # the remaining sequences start with a new update
