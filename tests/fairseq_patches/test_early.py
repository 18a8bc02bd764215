"""The callback of configs/ patches fairseq before a job of Hydra's begins."""

import pytest
from omegaconf import OmegaConf

from tests.commands import ROOT
from tupe.fairseq_patches import early


def begin(user_dir):
    early.ImportUserDir().on_job_start(OmegaConf.create({"common": {"user_dir": str(user_dir)}}))


def test_fairseq_is_patched_before_a_job_begins(monkeypatch):
    """A process that a launcher starts imports fairseq's command after the plugin."""
    installed = []
    monkeypatch.setattr(early, "install", lambda: installed.append(True))
    begin(ROOT / "tupe")
    assert installed == [True]


def test_a_package_that_cannot_be_imported_ends_the_job(tmp_path, capsys):
    """Hydra alone prints a warning and goes on."""
    with pytest.raises(SystemExit) as ended:
        begin(tmp_path / "none")
    assert ended.value.code == 1
    assert "FileNotFoundError" in capsys.readouterr().err
