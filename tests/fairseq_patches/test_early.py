import sys
import warnings

import pytest
from fairseq.dataclass.initialize import hydra_init
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import tupe.hydra_train
from tests.commands import ROOT
from tupe.fairseq_patches import early


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """`begin(old, new, *overrides)`: the callback, of the base configuration with `new` in the place of `old`."""
    installed = []
    monkeypatch.setattr(early, "install", lambda: installed.append(True))

    def begin(old, new, *overrides):
        text = (ROOT / "configs/pretraining/base.yaml").read_text()
        (tmp_path / "base.yaml").write_text(text.replace(old, new))
        hydra_init("base")
        with warnings.catch_warnings(), initialize_config_dir(config_dir=str(tmp_path), version_base="1.1"):
            warnings.simplefilter("ignore")
            given = ["task.data=DATA", f"common.user_dir={ROOT / 'tupe'}", *overrides]
            cfg = compose("base", overrides=given, return_hydra_config=True)
            (tmp_path / "job").mkdir()
            monkeypatch.chdir(tmp_path / "job")  # as Hydra does before a job
            early.ImportUserDir().on_job_start(cfg)
        return installed

    return begin


def test_fairseq_is_patched_before_a_job_begins(begin):
    """A process that a launcher starts imports fairseq's command after the plugin."""
    assert begin("", "", "common.cpu=1") == [True]


@pytest.mark.parametrize(
    ("old", "new", "overrides"),
    [("", "", ["common.cpu=2"]), ("", "", ["checkpoint.no_save=7"]), ("fp16: true", "fp16: -1", [])],
)
def test_a_number_is_no_flag(old, new, overrides, begin):
    said = r"^error: the configuration cannot be made: .*'\S+' is neither true nor false"
    with pytest.raises(SystemExit, match=said):
        begin(old, new, *overrides)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (["--config-name", "bse"], r"bse\.yaml \(did you mean base\?\): --config-name is base, "),
        ([], r"config\.yaml.*: --"),
    ],
)
def test_a_configuration_that_is_not_there(name, said, monkeypatch):
    folder = ROOT / "configs/pretraining"
    monkeypatch.setattr(sys, "argv", ["hydra_train", "--config-dir", str(folder), *name, "task.data=DATA"])
    with pytest.raises(SystemExit, match=rf"^error: there is no configuration {folder}/{said}"):
        tupe.hydra_train.main()


def test_a_file_in_the_place_of_the_folder_of_checkpoints(tmp_path):
    (tmp_path / "run").touch()
    cfg = OmegaConf.create({"checkpoint": {"save_dir": str(tmp_path / "run/1")}})
    with pytest.raises(SystemExit, match=r"^error: checkpoint\.save_dir is .*/run/1, but .*/run is no folder: name"):
        early.ImportUserDir().on_run_start(cfg)


def test_search_paths_are_relative_to_where_the_command_began(begin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own/on").mkdir(parents=True)
    (tmp_path / "own/on/cpu.yaml").write_text("# @package _global_\ncommon: {cpu: 2}\n")
    with pytest.raises(SystemExit, match=r"made: common\.cpu: In 'on/cpu': .* '2' is neither true nor false$"):
        begin("", "", "hydra.searchpath=[file://own]", "+on=cpu")
