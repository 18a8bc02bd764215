"""Tab completes commands, their options and files, as the shell asks for it."""

import os
import subprocess
import sys

import pytest

from tupe.cli.main import GROUPS

pytest.importorskip("argcomplete")


def completed(line, folder):
    """What argcomplete offers for a line."""
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    asked["_ARGCOMPLETE_STDOUT_FILENAME"] = str(folder / "offered")
    subprocess.run([sys.executable, "-m", "tupe"], env={**os.environ, **asked}, cwd=folder, timeout=60)
    return [name.strip() for name in (folder / "offered").read_text().splitlines()]


def test_commands_options_choices_and_files(tmp_path):
    (tmp_path / "checkpoint.pt").touch()
    assert {*completed("tupe ", tmp_path)} >= {name for names in GROUPS.values() for name in names}
    assert completed("tupe average", tmp_path) == ["average-checkpoints"]
    assert "--sequences" in completed("tupe plot --", tmp_path)
    assert "correlations" in completed("tupe plot ", tmp_path)
    assert completed("tupe export check", tmp_path) == ["checkpoint.pt"]
