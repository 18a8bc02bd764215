import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT, tupe
from tupe.util import config_dir


def test_prints_the_folder_of_the_configurations_anywhere(tmp_path):
    """In an editable installation the folder lies beside the package."""
    done = subprocess.run(
        [sys.executable, "-m", "tupe", "config-dir", "pretraining"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == f"{ROOT / 'configs/pretraining'}\n"


@pytest.mark.parametrize("kind", ["pretraining", "finetuning", "translation", "study"])
def test_every_kind_has_configurations(kind, capsys):
    assert tupe("config-dir", kind) == 0
    assert list(Path(capsys.readouterr().out.rstrip("\n")).glob("*.yaml"))
    assert config_dir(kind) == config_dir() / kind
