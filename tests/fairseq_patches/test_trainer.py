from types import SimpleNamespace

import pytest
from fairseq.trainer import Trainer

from tupe.fairseq_patches.task import put_in_scope
from tupe.fairseq_patches.trainer import ScheduleTrainer, TupeTrainer
from tupe.models import TupeModel
from tupe.util import UserError


def test_the_trainer_is_chosen_by_what_it_trains():
    task, other = SimpleNamespace(), SimpleNamespace()
    put_in_scope(task)
    assert type(Trainer.__new__(Trainer, None, task, other, other)) is TupeTrainer
    assert type(Trainer.__new__(Trainer, None, other, object.__new__(TupeModel), other)) is TupeTrainer
    assert type(Trainer.__new__(Trainer, None, other, other, other)) is Trainer
    scheduled = SimpleNamespace(lr_scheduler="linear_decay")  # of ours, in a run of fairseq's
    assert type(Trainer.__new__(Trainer, scheduled, other, other, other)) is ScheduleTrainer

    class Users(Trainer):
        pass

    assert type(Trainer.__new__(Users, None, task, other, other)) is Users


def test_precisions_exclude_each_other(train, tmp_path):
    with pytest.raises(UserError, match="fp16, bf16 and amp exclude each other"):
        train(tmp_path, "--bf16", "--amp")
