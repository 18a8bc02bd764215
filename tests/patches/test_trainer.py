"""A run resumes where it was, does not resume from what does not fit, and is finished once."""

import itertools
import os
import shutil
from types import SimpleNamespace

import pytest
import torch

from tests.patches.test_checkpoints import digest
from tupe.patches.trainer import TupeTrainer
from tupe.util import UserError


def test_finished_run_stays_finished(train, tmp_path):
    train(tmp_path)
    before = digest(tmp_path / "checkpoint_last.pt")
    train(tmp_path)
    assert digest(tmp_path / "checkpoint_last.pt") == before
    train(tmp_path, "--max-update", 4)
    last = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert last["optimizer_history"][-1]["num_updates"] == 4


def test_a_run_without_its_optimizer_does_not_go_on_in_silence(train, tmp_path):
    train(tmp_path / "run", "--no-save-optimizer-state")
    last = tmp_path / "run/checkpoint_last.pt"
    with pytest.raises(UserError, match=rf"{last} does not have the optimizer's state.*--finetune-from-model"):
        train(tmp_path / "run", "--max-update", 4)
    train(tmp_path / "new", "--restore-file", last)


@pytest.mark.parametrize("fault", ["missing", "cut", "flipped", "fine-tuned"])
def test_nothing_begins_where_a_whole_checkpoint_is(fault, train, tmp_path):
    """fairseq alone begins at update 0, and replaces the best."""
    train(tmp_path, "--save-interval-updates", 1)
    last = tmp_path / "checkpoint_last.pt"
    data = bytearray(last.read_bytes())
    for name, written in {"best": 1, "1_1": 2, "1_2": 3}.items():
        os.utime(tmp_path / f"checkpoint_{name}.pt", (0, written))
    (tmp_path / "checkpoint_1_3.pt").write_bytes(data[:-100])
    if fault in ("missing", "fine-tuned"):
        last.unlink()
    else:
        data[len(data) // 2] ^= 1
        last.write_bytes(data if fault == "flipped" else data[:-100])
    before = digest(tmp_path / "checkpoint_best.pt")
    flags = ("--finetune-from-model", tmp_path / "checkpoint_1_2.pt") if fault == "fine-tuned" else ()
    why = "cannot be read" if last.exists() else "is missing"
    with pytest.raises(UserError, match=rf"^{last} {why}\. To resume from {tmp_path}/checkpoint_1_2\.pt, copy it"):
        train(tmp_path, *flags)
    assert digest(tmp_path / "checkpoint_best.pt") == before
    shutil.copy(tmp_path / "checkpoint_1_2.pt", last)
    train(tmp_path)


@pytest.mark.parametrize("flag", ["--restore-file", "--continue-once"])
def test_checkpoint_that_does_not_exist(flag, train, tmp_path):
    """fairseq alone trains from nothing."""
    with pytest.raises(FileNotFoundError, match=r"none\.pt"):
        train(tmp_path, flag, tmp_path / "none.pt")


def test_interrupted_finetuning_goes_on_without_the_pretrained_checkpoint(train, trained, tmp_path):
    pretrained = tmp_path / "pretrained.pt"
    pretrained.write_bytes((trained / "checkpoint_last.pt").read_bytes())
    train(tmp_path / "run", "--finetune-from-model", pretrained)
    pretrained.unlink()
    train(tmp_path / "run", "--finetune-from-model", pretrained, "--max-update", 4)


def drawn(trainer, seed, update, rank):
    self = SimpleNamespace(
        cfg=SimpleNamespace(common=SimpleNamespace(seed=seed)), get_num_updates=lambda: update, data_parallel_rank=rank
    )
    trainer._set_seed(self)
    return torch.rand(4).tolist()


def test_every_update_of_every_process_and_seed_draws_its_own():
    where = list(itertools.product((1, 2, 3), range(9, 12), range(3)))
    numbers = [drawn(TupeTrainer, *place) for place in where]
    assert len({tuple(row) for row in numbers}) == len(where)
    assert numbers == [drawn(TupeTrainer, *place) for place in where]  # as a resumed run does
