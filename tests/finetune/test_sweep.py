"""Sweeps without their trainings: GPUs, locks, failures, the best checkpoint, and whose folder it is."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.samples import write_checkpoint
from tupe.finetune import sweep as module
from tupe.finetune.runs import SWEEP, Run, result
from tupe.finetune.sweep import add_runs, keep_best, sweep
from tupe.util import UserError, lock, read_json, write_json

GRID = {"tasks": ["CoLA"], "lrs": (1e-5, 2e-5), "seeds": (1, 2)}


def runs_of(task="CoLA", lrs=(1e-5, 2e-5), seeds=(1, 2)):
    return [Run(task, lr, seed) for lr in lrs for seed in seeds]


def finish(folder, score, lr=1e-5, seed=1):
    write_json(folder / "result.json", {"score": score, "metrics": {}, "lr": lr, "seed": seed, "metric": "mcc"})
    (folder / "checkpoint_best.pt").touch()


class Runs:
    """Take the place of the processes: keep what ran where, and which ran at once."""

    def __init__(self):
        self.scores, self.done, self.active, self.most = {}, [], {}, {}
        self.guard = threading.Lock()

    def __call__(self, command, folder, environment, held):
        gpu = environment.get("CUDA_VISIBLE_DEVICES", "")
        with self.guard:
            self.active[gpu] = self.active.get(gpu, 0) + 1
            self.most[gpu] = max(self.most.get(gpu, 0), self.active[gpu])
        time.sleep(0.02)
        folder.mkdir(parents=True, exist_ok=True)
        score = self.scores.get(folder.parts[-2:], 50.0)
        if score is not None:
            finish(folder, score, float(folder.parts[-2][3:]), int(folder.parts[-1][5:]))
        with self.guard:
            self.active[gpu] -= 1
            self.done.append(folder)


@pytest.fixture
def processes(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    runs = Runs()
    monkeypatch.setattr(module, "run_alone", runs)
    return runs


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    return write_checkpoint(folder / "checkpoint_last.pt", folder)


@pytest.mark.parametrize(("gpus", "jobs", "most"), [("", 0, {"": 1}), ("", 3, {"": 3}), ("2,5", 0, {"2": 1, "5": 1})])
def test_a_gpu_has_one_run_at_a_time(gpus, jobs, most, processes, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    sweep("glue", checkpoint, tmp_path, tmp_path / "out", jobs=jobs, **(GRID | {"seeds": (1, 2, 3, 4, 4)}))
    assert processes.most == most and len(processes.done) == len(read_json(tmp_path / "out" / SWEEP)["runs"]) == 8


def test_a_failed_run_stops_no_other_and_is_tried_again(processes, checkpoint, tmp_path, capsys):
    processes.scores["lr_1e-05", "seed_2"] = None
    given = ("glue", checkpoint, tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="1 of 4 runs failed"):
        sweep(*given, **GRID)
    assert "CoLA, lr 1e-05, seed 2: failed, see" in capsys.readouterr().out and len(processes.done) == 4
    processes.scores.clear()
    sweep(*given, **GRID)
    assert len(processes.done) == 5


def test_a_run_of_another_machine_is_waited_for(processes, checkpoint, tmp_path):
    out, runs = tmp_path / "out", runs_of()
    with ThreadPoolExecutor() as pool, lock(out / "CoLA/lr_1e-05/.seed_1.lock"):
        other = pool.submit(sweep, "glue", checkpoint, tmp_path, out, **GRID)
        while len(processes.done) < 3:
            time.sleep(0.01)
        finish(out / runs[0].folder, 60.0)
    assert other.result() is None and len(processes.done) == 3
    assert result(out / runs[0].folder).score == 60


def test_of_equal_runs_the_first_seed_keeps_its_checkpoint(tmp_path):
    scores = {(2e-5, 1): 60.0, (1e-5, 2): 60.0, (1e-5, 1): 59.0, (1e-5, 3): 60.0}
    for (lr, seed), score in scores.items():
        finish(tmp_path / Run("", lr, seed).folder, score, lr, seed)
        keep_best(tmp_path)
    unfinished = tmp_path / "lr_3e-05/seed_1/checkpoint_best.pt"
    unfinished.parent.mkdir(parents=True)
    unfinished.touch()
    keep_best(tmp_path)
    assert {*tmp_path.rglob("*.pt")} == {unfinished, tmp_path / "lr_1e-05/seed_2/checkpoint_best.pt"}


def test_a_sweep_grows_but_never_changes(checkpoint, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other.pt"
    other.write_bytes(checkpoint.read_bytes())
    add_runs(checkpoint, tmp_path, out, ["a=1"], runs_of())
    add_runs(other, tmp_path, out, ["a=1"], runs_of("RTE"))  # the same file elsewhere
    before = (out / SWEEP).read_text()
    assert json.loads(before)["runs"] == [run._asdict() for run in runs_of() + runs_of("RTE")]
    other.unlink()
    write_checkpoint(other, tmp_path, max_positions=16)
    for given in ((other, tmp_path, out, ["a=1"]), (checkpoint, tmp_path, out, [])):
        with pytest.raises(UserError, match="Choose another folder"):
            add_runs(*given, [])
    write_json(tmp_path / "CoLA/dict.txt", 1)  # as if it had not been prepared before
    add_runs(checkpoint, tmp_path, out, ["a=1"], runs_of())
    write_json(tmp_path / "CoLA/dict.txt", 2)
    with pytest.raises(UserError, match="was started with data"):
        add_runs(checkpoint, tmp_path, out, ["a=1"], runs_of())
    assert (out / SWEEP).read_text() == before
