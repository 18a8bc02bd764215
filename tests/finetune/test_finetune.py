"""One fine-tuning, without its training: the command for fairseq, whose folder it is, and its result."""

import json
import shutil
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from tests.samples import write_checkpoint, write_task
from tupe.cli.main import main
from tupe.finetune import finetune as module
from tupe.finetune.benchmarks import settings
from tupe.finetune.finetune import validation
from tupe.finetune.runs import quoted, result
from tupe.util import user_dir

ODD = "it's a (folder), {é}=[1] #~;&*\\o\\'\n\\"


def record(epoch, update, subset="valid", **metrics):
    metrics = {f"{subset}_{name}": str(value) for name, value in {**metrics, "num_updates": update}.items()}
    return f"[2026-01-01 00:00:00,000][{subset}][INFO] - {json.dumps({'epoch': epoch, **metrics})}\n"


class Training:
    """Takes the place of fairseq: keeps the command, and leaves what training leaves."""

    def __init__(self):
        self.commands = []

    def __call__(self, *command):
        self.commands.append(command)
        folder = Path(self.given["checkpoint.save_dir"])
        write_checkpoint(folder / "checkpoint_best.pt", self.given["task.data"], num_classes=2)
        (folder / "checkpoint_last.pt").touch()
        (folder / "hydra_train.log").write_text(record(1, 7, mcc=50.0))

    @property
    def given(self):
        """The values of the last command by key, the last of each key."""
        parsed = OverridesParser.create().parse_overrides(list(self.commands[-1][4:]))
        values = {one.key_or_group: one.value() for one in parsed}
        interpolated = OmegaConf.create({"optimization": {"lr": [3e-5]}, "common": {"seed": 1}})
        for key in ("optimization.lr", "common.seed"):
            OmegaConf.update(interpolated, key, values.get(key, OmegaConf.select(interpolated, key)))
        interpolated["save_dir"] = values["checkpoint.save_dir"]
        return {**values, "checkpoint.save_dir": interpolated.save_dir}


@pytest.fixture
def training(monkeypatch):
    training = Training()
    monkeypatch.setattr(module, "train", training)
    return training


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a pre-trained checkpoint `a/b.pt` and a prepared task `DATA/CoLA`."""
    monkeypatch.chdir(tmp_path)
    write_task(Path("DATA/CoLA"))
    write_checkpoint(Path("a/b.pt"), "DATA")
    return tmp_path


def finetune(*overrides, checkpoint="a/b.pt", data="DATA"):
    return main(["finetune", "CoLA", checkpoint, data, *overrides])


def test_folders_of_any_name(here, training, capsys):
    shutil.move("a", ODD)
    shutil.move("DATA", f"{ODD}/data")
    save_dir = f"{ODD}/b{ODD}"
    key = f"checkpoint.save_dir={quoted(save_dir)}"
    assert finetune(key, checkpoint=f"{ODD}/b.pt", data=f"{ODD}/data") == 0
    given = training.given
    assert given["common.user_dir"] == str(user_dir())
    assert (given["task.data"], given["model.pretrained"]) == (f"{ODD}/data/CoLA", f"{ODD}/b.pt")
    assert given["checkpoint.save_dir"] == save_dir
    assert capsys.readouterr().out.startswith("CoLA: mcc 50.00 at epoch 1, in it's a")
    assert not Path(save_dir, "checkpoint_last.pt").exists()


@pytest.mark.parametrize(
    ("overrides", "folder"),
    [
        ([], "lr_3e-05/seed_1"),
        (["optimization.lr=[2e-5]"], "lr_2e-05/seed_1"),
        (["optimization.lr=[0.00002]", "common.seed=7"], "lr_2e-05/seed_7"),
    ],
)
def test_rates_and_seeds_have_their_own_folders(overrides, folder, here, training):
    assert finetune(*overrides, "optimization.max_epoch=2") == 0
    assert training.given["checkpoint.save_dir"] == f"runs/finetuning/a-b/CoLA/{folder}"
    assert result(Path(f"runs/finetuning/a-b/CoLA/{folder}")).score == 50


def test_a_finished_run_stays(here, training, capsys):
    assert finetune() == finetune() == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second and len(training.commands) == 1
    assert finetune("model.dropout=0.2") == 1
    assert "started with overrides = [], not ['model.dropout=0.2']" in capsys.readouterr().err
    shutil.move("DATA", "OTHER")
    assert finetune(data="OTHER") == 0
    Path("OTHER/CoLA/label/train.bin").write_bytes(b"others")
    assert finetune(data="OTHER") == 1
    assert "started with data = " in capsys.readouterr().err


def test_the_validation_of_a_checkpoint(tmp_path):
    """Not a better one that fairseq did not save; of an update that is there twice, the last; no half of a record."""
    log = tmp_path / "hydra_train.log"
    log.write_text(
        record(1, 10, mcc=61.0, loss="inf") + record(1, 10, "valid1", mcc=1.0)
        + record(2, 20, mcc=1.0) + record(2, 20, mcc=60.0, loss="nan") + record(2, 20, "valid1", mcc=2.0)
        + record(3, 30, mcc=99.0)[:90] + record(3, 30, mcc=59.0)
    )  # fmt: skip
    best = {"best_checkpoint_metric": "mcc", "maximize_best_checkpoint_metric": False}  # so the score is negative
    cfg = {"checkpoint": best, "optimization": {"lr": [2e-5]}, "common": {"seed": 3}}
    found = validation(log, 20, "CoLA", OmegaConf.create(cfg))
    assert (found.score, found.epoch, found.lr, found.seed, found.metric) == (-60.0, 2, 2e-5, 3, "mcc")
    assert found.metrics["valid"]["loss"] is None and found.metrics["valid1"]["mcc"] == 2.0


def test_electras_recipe_has_the_epochs_of_its_paper():
    assert settings("RTE", Path(), ["recipe=electra"]) == ("glue", ["glue=rte", "optimization.max_epoch=10"])
    assert settings("SST-2", Path(), ["recipe=electra"]) == ("glue", ["glue=sst_2"])
    assert settings("TyDiQA", Path(), []) == ("qa", ["qa=tydiqa"])
