import subprocess
import sys

from tests.commands import tupe
from tests.test_docs import COMMANDS


def test_help_lists_every_command_and_imports_no_torch():
    """What a user waits for on `tupe --help` and `tupe COMMAND --help`."""
    code = """
import contextlib, io, sys
from tupe.cli.main import main
for words in (["--help"], *([name, "--help"] for name in sys.argv[1:])):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main(words) == 0
    assert not {"torch", "fairseq"} & sys.modules.keys(), words
    assert words != ["--help"] or all(f"\\n  {name} " in said.getvalue() for name in sys.argv[1:])
"""
    names = [name for name, command in COMMANDS.items() if not command.hidden]
    subprocess.run([sys.executable, "-c", code, *names], check=True)


def test_a_wrong_command(capsys):
    assert tupe("tabel") == 2
    assert "Did you mean 'table'" in capsys.readouterr().err


def test_an_error_for_users_is_one_line(tmp_path, capsys):
    (out := tmp_path / "out").touch()
    for command in (
        ["convert", "average", "a.pt", out],
        ["plot", "training", "run", out],
        ["report", "a.pt", out],
        ["warm-start", "a.pt", "tupe_r", out],
    ):
        assert tupe(*command) == 1
        assert capsys.readouterr().err == f"error: {out} exists. Delete it or choose another name.\n"


def test_options_stand_anywhere():
    assert tupe("describe", "--vocab-size", "100", "tupe_tiny", "--max-positions", "16", "reset=none") == 0
