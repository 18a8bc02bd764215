import subprocess
import sys

import pytest

from tests.commands import tupe
from tupe.cli.main import COMMANDS, load


def test_help_lists_every_command_and_imports_none():
    """`tupe --help` imports neither PyTorch nor fairseq."""
    code = """
import sys
from tupe.cli.main import main
assert main(["--help"]) == 0
assert not {"torch", "fairseq", "tupe.cli.plan"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert all(f"\n  {name.partition(' ')[0]} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_explained(name):
    assert all(getattr(parameter, "help", None) or parameter.metavar for parameter in load(name).params)


def test_an_error_for_users_is_one_line(tmp_path, capsys):
    (out := tmp_path / "out").touch()
    assert tupe("report", "a.pt", out) == 1
    assert capsys.readouterr().err == f"error: {out} exists. Delete it or choose another name.\n"
