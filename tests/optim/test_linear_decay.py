"""The schedule, driven as fairseq's training loop drives it: its real iterators, one `step_update` an update."""

import copy
import math
from argparse import Namespace

import pytest
import torch
from fairseq.data import ListDataset
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.optim.sgd import SGD
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tupe.optim.linear_decay import LinearDecayConfig, LinearDecaySchedule


def batches(number, workers=1, epoch=1, **options):
    each, numbers = [[i] for i in range(number)], ListDataset(range(number))
    return EpochBatchIterator(numbers, numbers.collater, each, num_shards=workers, epoch=epoch, **options)


def optimizer():
    return SGD(Namespace(lr=[0.5], momentum=0, weight_decay=0), [torch.nn.Parameter(torch.zeros(1))])


def schedule(**fields):
    defaults = {"lr": [0.5], "max_update": 0, "max_epoch": 0, "update_freq": [1], "skip_remainder_batch": False}
    built = LinearDecaySchedule(OmegaConf.structured(LinearDecayConfig(**{**defaults, **fields})), optimizer())
    built.step_update(0)  # as the trainer does before it has data
    return built


def train(lr, iterator, num_updates=0, stop_at=math.inf, overflows=()):
    """The loop of fairseq-train; returns the number of updates and the rate of each, and the one after the last."""
    config, rates = lr.cfg, []
    lr.set_batches(iterator)
    lr.step_update(num_updates)
    while iterator.next_epoch_idx <= (config.max_epoch or math.inf):
        epoch_iterator = iterator.next_epoch_itr(shuffle=False)
        frequency = config.update_freq[min(iterator.epoch, len(config.update_freq)) - 1]
        lr.step_update(num_updates)
        for step, _ in enumerate(GroupedIterator(epoch_iterator, frequency, config.skip_remainder_batch)):
            if (iterator.epoch, step) in overflows:  # fairseq skips such an update and does not count it
                continue
            rates.append(lr.optimizer.get_lr())
            num_updates += 1
            lr.step_update(num_updates)
            if num_updates >= min(config.max_update or math.inf, stop_at):
                return num_updates, [*rates, lr.optimizer.get_lr()]
        lr.step_update(num_updates)
    return num_updates, [*rates, lr.optimizer.get_lr()]


def test_values_of_a_run_in_updates():
    lr = schedule(max_update=10, warmup_updates=4)
    assert [lr.step_update(u) for u in range(5)] == [0.0, 0.125, 0.25, 0.375, 0.5]
    assert [lr.step_update(u) for u in (7, 10, 11)] == [0.25, 0.0, 0.0]
    assert schedule(max_update=3, warmup_updates=30).step_update(3) == 0.05
    assert schedule(max_update=100, warmup_ratio=0.29).step_update(29) == 0.5  # 0.29 * 100 is 28.999...


@given(
    number=st.integers(2, 30),
    workers=st.integers(1, 4),
    max_epoch=st.integers(1, 4),
    update_freq=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    skip_remainder_batch=st.booleans(),
    max_update=st.sampled_from([0, 0, 5, 1000]),
    ratio=st.sampled_from([0.0, 0.06, 0.5]),
)
def test_epochs_end_at_zero_and_equal_the_same_run_in_updates(
    number, workers, max_epoch, update_freq, skip_remainder_batch, max_update, ratio
):
    fields = {"max_epoch": max_epoch, "update_freq": update_freq, "skip_remainder_batch": skip_remainder_batch}
    iterator = batches(number, workers, skip_remainder_batch=skip_remainder_batch)
    probe = schedule(**fields)
    probe.set_batches(copy.copy(iterator))
    if not probe.total_updates(0):
        return  # every batch is dropped
    lr = schedule(**fields, max_update=max_update, warmup_ratio=ratio)
    updates, rates = train(lr, iterator)
    assert rates[-1] == 0.0
    assert all(rate > 0 for rate in rates[1:-1])
    in_updates = schedule(max_update=updates, warmup_ratio=ratio)
    assert rates == [in_updates.step_update(u) for u in range(updates + 1)]


@pytest.mark.parametrize("skip_remainder_batch", [False, True])
@pytest.mark.parametrize("stop_at", range(1, 11))
def test_a_resumed_run_has_the_same_rates(stop_at, skip_remainder_batch):
    skip = {"skip_remainder_batch": skip_remainder_batch}
    fields = {"max_epoch": 3, "update_freq": [2, 3], "warmup_ratio": 0.3, **skip}
    _, whole = train(schedule(**fields), batches(11, **skip))
    iterator = batches(11, **skip)
    lr = schedule(**fields)
    updates, before = train(lr, iterator, stop_at=stop_at)

    resumed, fresh = schedule(**fields), batches(11, epoch=iterator.state_dict()["epoch"], **skip)
    resumed.load_state_dict(lr.state_dict())
    resumed.set_batches(fresh)
    fresh.load_state_dict(iterator.state_dict())
    _, after = train(resumed, fresh, updates)
    assert before[:-1] + after == whole


def test_an_overflow_shortens_the_run():
    updates, rates = train(schedule(max_epoch=2), batches(5), overflows={(1, 0), (1, 1), (2, 2)})
    assert updates == 7
    assert rates[-1] == 0.0
    assert rates[-2] == pytest.approx(0.5 / 7)
