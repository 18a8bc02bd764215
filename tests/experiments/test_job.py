"""Why a run failed, which checkpoint is kept, and which GPU a run gets."""

import json
import os

import pytest

from tupe.experiments import job
from tupe.experiments.job import keep_best, one_gpu, reason
from tupe.experiments.runs import Run
from tupe.experiments.sweep import multirun


@pytest.mark.parametrize(
    ("log", "code", "expected"),
    [
        ("loss 3\nerror: there is no file.\n", 1, "there is no file."),
        (
            "epoch 1\nError executing job with overrides: ['a=b']\nThe learning rate is wrong.\n\nSet the environment "
            "variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
            1,
            "The learning rate is wrong.",
        ),
        (
            "Error executing job with overrides: []\nTraceback (most recent call last):\n  File x\n"
            "torch.OutOfMemoryError: CUDA out of memory. Tried\n\nSet the environment variable HYDRA_FULL_ERROR=1\n",
            1,
            "torch.OutOfMemoryError: CUDA out of memory. Tried",
        ),
        (
            "Could not override 'dataset.batch_size'.\nValue 'x' could not be converted to Integer\n"
            "    full_key: dataset.batch_size\n    reference_type=DatasetConfig\n    object_type=DatasetConfig\n\n"
            "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n",
            1,
            "exit status 1: Value 'x' could not be converted to Integer",
        ),
        (
            "finetune_glue.sh: line 43: 12 Killed   train\n",
            137,
            "exit status 137: finetune_glue.sh: line 43: 12 Killed   train",
        ),
        ("", -9, "ended by SIGKILL"),
    ],
)
def test_reason(log, code, expected, tmp_path):
    (tmp_path / "log").write_text(log)
    assert reason(tmp_path / "log", code) == expected


def test_only_the_best_checkpoint_of_a_task_is_kept(tmp_path):
    for seed, score in enumerate((3.0, 5.0, 4.0)):
        folder = tmp_path / Run("RTE", 2e-5, seed).folder
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({"score": score}))
        (folder / "checkpoint_best.pt").touch()
    unfinished = tmp_path / Run("RTE", 3e-5, 0).folder
    unfinished.mkdir(parents=True)
    (unfinished / "checkpoint_best.pt").touch()
    keep_best(tmp_path / "RTE")
    left = {path.parent for path in tmp_path.glob("RTE/*/*/checkpoint_best.pt")}
    assert left == {tmp_path / Run("RTE", 2e-5, 1).folder, unfinished}


def test_runs_share_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(job.tempfile, "gettempdir", lambda: str(tmp_path))
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):  # a user without a name, as in a container
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1 << 30)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    with one_gpu() as first, one_gpu() as second:
        assert {first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]} == {"3", "5"}
    with one_gpu() as again:
        assert again["CUDA_VISIBLE_DEVICES"] == "3"
    for only in ("3", ""):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", only)
        with one_gpu() as environment:
            assert environment == {}


def test_a_sweep_has_a_job_for_each_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert multirun(tmp_path, [Run("RTE", 2e-5, 1)], ["hydra/launcher=joblib"])[-1] == "hydra.launcher.n_jobs=2"
