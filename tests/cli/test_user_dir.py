import subprocess
import sys
from pathlib import Path

import tupe
from tests.commands import tupe as run
from tupe.util import config_dir


def test_prints_the_folder_of_the_package_and_nothing_else():
    out = subprocess.run([sys.executable, "-m", "tupe", "user-dir"], check=True, capture_output=True, text=True).stdout
    assert out == f"{Path(tupe.__file__).resolve().parent}\n"


def test_the_folders_of_the_configurations(capsys):
    for kind in ("", "study"):
        assert run("config-dir", *filter(None, [kind])) == 0
        assert Path(capsys.readouterr().out.strip()) == config_dir(kind)
