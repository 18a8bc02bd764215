import argparse

import pytest

from tupe.cli import glue_sweep
from tupe.errors import UserError
from tupe.finetuning import settings, sweep
from tupe.finetuning.runs import Run


def test_what_is_repeated_counts_once():
    parser = argparse.ArgumentParser()
    glue_sweep.add_arguments(parser)
    grid = ["--tasks", "CoLA,RTE,CoLA", "--lrs", "1e-5,2e-5,0.00001", "--seeds", "2 2"]
    args = parser.parse_args([*grid, "checkpoint", "data", "out"])
    assert (args.tasks, args.lrs, args.seeds) == (["CoLA", "RTE"], [1e-5, 2e-5], [2])


def test_needs_a_clone(tmp_path, monkeypatch):
    """Where only the package is installed, there are no configurations and scripts."""
    monkeypatch.setattr(settings, "CONFIGS", tmp_path / "configs")
    (tmp_path / "CoLA/input0").mkdir(parents=True)
    (tmp_path / "CoLA/input0/train.bin").touch()
    with pytest.raises(UserError, match=r"run the scripts of a clone"):
        sweep.make_plan(tmp_path / "checkpoint.pt", tmp_path, [], [Run("CoLA", 2e-5, 1)])


@pytest.mark.parametrize("grid", [["--lrs", "nan"], ["--lrs", "-1"], ["--lrs", "1e999"], ["--seeds", "-3"]])
def test_numbers_that_are_none(grid):
    parser = argparse.ArgumentParser()
    glue_sweep.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([*grid, "checkpoint", "data", "out"])
