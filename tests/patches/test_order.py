"""A run that resumes with another split of its updates sees every sequence of an epoch once, in the same updates."""

import itertools
import pickle
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.tasks import FairseqTask

from tests.patches.test_batches import Lengths
from tupe.patches.order import NUMBERS, _in_update, split_of
from tupe.patches.safe_load import safe_load

EXAMPLES = 171


class Examples(Lengths):
    def ordered_indices(self):
        return np.random.permutation(EXAMPLES)

    def __getitem__(self, index):
        return index

    def collater(self, samples):
        return samples


def iterators(split, state=None):
    """One iterator for each process of a split: batch size, processes, accumulated batches, and others by name."""
    size, processes, accumulated, *others = split
    given = {"max_tokens": None, "seed": 1, **dict(others)}
    data, task = Examples(np.arange(EXAMPLES) % 7 + 1), FairseqTask(Namespace())
    cfg = SimpleNamespace(
        dataset=SimpleNamespace(batch_size=size, max_tokens=given["max_tokens"]),
        optimization=SimpleNamespace(update_freq=[accumulated]),
        common=SimpleNamespace(seed=given["seed"]),
    )
    for rank in range(processes):
        iterator = task.get_batch_iterator(
            data, max_sentences=size, num_shards=processes, shard_id=rank, disable_iterator_cache=True, **given
        )
        iterator.split = split_of(SimpleNamespace(cfg=cfg, data_parallel_world_size=processes))
        if state:
            iterator.load_state_dict(state)
        yield iterator


def trained(split, updates, state=None):
    """Train for a number of updates: the sequences of each, and the state that the first process saves."""
    processes, seen = [*iterators(split, state)], []
    while len(seen) < updates:
        batches = [process.next_epoch_itr() for process in processes]
        assert [*map(len, batches)] == [*map(len, processes)]  # `linear_decay` counts the latter
        epoch = [GroupedIterator(each, split[2]) for each in batches]
        assert len({len(each) for each in epoch}) == 1
        while epoch[0].has_next() and len(seen) < updates:
            batches = [batch for process in epoch for batch in next(process)]
            assert max(map(len, batches)) <= (split[0] or 40)
            seen.append(sorted(int(example) for batch in batches for example in batch))
    return seen, pickle.loads(pickle.dumps(processes[0].state_dict()))


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


ONE = (16, 1, 1)
TOKENS = ("max_tokens", 40)
ORDERS = {
    "memory": (ONE, (8, 1, 2)),
    "room": ((8, 1, 2), ONE),
    "processes": (ONE, (4, 2, 2), ONE),
    "there and back": (ONE, (8, 2, 1), (4, 4, 1), ONE),
    "fewer processes": ((8, 2, 1), ONE, (8, 2, 1)),
    "by tokens": ((99, 2, 1, TOKENS), (99, 1, 2, TOKENS)),
    "fewer tokens": ((None, 1, 2, TOKENS), (None, 2, 2, ("max_tokens", 20)), (None, 2, 1, TOKENS)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_another_split_of_the_same_updates(name):
    """Three epochs of 11 updates: resumed within the first, where one has begun, and in the third."""
    began, *others = ORDERS[name]
    whole, _ = trained(began, 33)
    for first in (4, 11, 25):
        seen, state = trained(began, first)
        for place, split in enumerate(others):
            more, state = trained(split, 33 - first if place == len(others) - 1 else 3, state)
            seen += more
            first += 3
        assert seen == whole


@pytest.mark.parametrize("split", [(8, 1, 1), (32, 1, 1), (16, 2, 1), (16, 1, 1, TOKENS), (24, 1, 1)])
def test_another_batch_goes_on_with_the_sequences_that_are_left(split, caplog):
    seen, state = trained(ONE, 3)
    for _ in range(2):  # a second start says it again
        more, state = trained(split, 2, state)
        seen += more
        (said,) = warnings(caplog)
        assert ", not {" in said and said.endswith("epoch 1 ends with the sequences that are left.")
        caplog.clear()
    split = ONE if split[0] == 24 else split  # back, in the middle of an update
    while state["epoch"] == 1:
        more, state = trained(split, 1, state)
        seen += more
    assert sorted(itertools.chain(*seen)) == [*range(EXAMPLES)]
    assert state["split"]["batch_size"] == split[0]
    caplog.clear()
    more, _ = trained(split, 200 if split[0] == 8 else 3, state)
    assert not warnings(caplog)


def test_another_seed_is_said(caplog):
    assert [_in_update({NUMBERS: [2, 4]}, epoch) for epoch in (1, 2, 3)] == [2, 4, 4]
    _, state = trained(ONE, 4)
    seen, _ = trained((*ONE, ("seed", 2)), 7, state)
    assert sum(map(len, seen)) in (EXAMPLES - 64, EXAMPLES - 64 + 5)
    (said,) = warnings(caplog)
    assert said.endswith("epoch 1 ends with sequences drawn again.")


def test_an_iterator_that_a_task_builds_itself_resumes_as_in_fairseq():
    """`translation_multi_simple_epoch` is such a task."""
    data = Examples(np.arange(6))
    own = EpochBatchIterator(data, data.collater, [[0, 1], [2, 3], [4, 5]])
    own.load_state_dict({"epoch": 1, "iterations_in_epoch": 2, "split": "another"})
    assert (own.iterations_in_epoch, len(own)) == (2, 3)


def test_a_run_with_another_split_ends_with_the_same_parameters(train, tmp_path):
    """600 sentences in blocks of 32 tokens; the last batch of an epoch is not full."""
    exact = ("--dropout", 0, "--attention-dropout", 0, "--optimizer", "sgd", "--lr", 0.1, "--disable-validation")
    last = [{}, {}]
    for folder, sizes in (("whole", (8, 8)), ("split", (8, 2))):
        for updates, size in zip((20, 60), sizes):
            flags = ("--batch-size", size, "--update-freq", 8 // size, "--max-update", updates)
            train(tmp_path / folder, *exact, *flags)
        last.append(safe_load(tmp_path / folder / "checkpoint_last.pt"))
    whole, split = last[2:]
    torch.testing.assert_close(split["model"], whole["model"], rtol=1e-5, atol=1e-6)
    assert split["extra_state"]["train_iterator"]["epoch"] == whole["extra_state"]["train_iterator"]["epoch"] == 2
