"""Averaged checkpoints: the mean, and only of what has one."""

import pytest
import torch

from tupe.checkpoints.average import average, last_checkpoints
from tupe.cli.main import main
from tupe.util import UserError


@pytest.fixture
def save(tmp_path):
    def save(name, value, cfg=None, labels=None, **others):
        shared = torch.full((2, 3), float(value), dtype=torch.float16)
        model = {"a": shared, "b": shared, "count": torch.tensor(3), **others}
        saved = {"model": cfg or {"_name": "x"}, "task": {"labels_sha256": labels}}
        state = {"model": model, "cfg": saved, "last_optimizer_state": {"exp_avg": shared}}
        torch.save({**state, "optimizer_history": [{"num_updates": value}], "extra_state": {}}, tmp_path / name)
        return tmp_path / name

    return save


def test_is_the_mean_and_shared_tensors_stay_one(save, tmp_path):
    for number in (1, 2, 6):
        save(f"checkpoint_1_{number}.pt", number)
    save("checkpoint1.pt", 100)
    assert main(["average-checkpoints", str(tmp_path / "out.pt"), str(tmp_path), "--last", "2"]) == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    assert state["model"]["a"].dtype == torch.float16
    torch.testing.assert_close(state["model"]["a"], torch.full((2, 3), 4.0, dtype=torch.float16))
    assert state["model"]["a"].data_ptr() == state["model"]["b"].data_ptr()
    assert state["model"]["count"] == 3
    assert state["last_optimizer_state"] is None
    assert state["optimizer_history"] == [{"num_updates": 6}]


def test_of_one_checkpoint_is_that(save):
    paths = [save("checkpoint1.pt", 0.1)] * 5
    torch.testing.assert_close(average(paths)["model"]["a"], torch.full((2, 3), 0.1, dtype=torch.float16))


def test_epochs_are_sorted_as_numbers(save, tmp_path):
    for number in (2, 10, 9):
        save(f"checkpoint{number}.pt", number)
    save("checkpoint_best.pt", 0)
    assert [path.name for path in last_checkpoints(tmp_path, 2)] == ["checkpoint9.pt", "checkpoint10.pt"]
    with pytest.raises(UserError, match=r"has 3 checkpoints of updates or epochs, not 4"):
        last_checkpoints(tmp_path, 4)


def test_other_models_are_refused(save):
    first = save("checkpoint1.pt", 1)
    with pytest.raises(UserError, match="differ in _name, width"):
        average([first, save("other.pt", 1, {"_name": "y", "width": 3})])
    with pytest.raises(UserError, match=r"differ in labels_sha256\.$"):
        average([first, save("task.pt", 1, labels="1")])
