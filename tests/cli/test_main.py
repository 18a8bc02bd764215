from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tupe.cli import main as module
from tupe.cli.main import main
from tupe.errors import UserError


def test_help_lists_every_command_with_a_line(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = dict(line.split(None, 1) for line in lines[lines.index("commands:") + 1 :])
    assert (
        listed["user-dir"]
        == "Prints the folder that fairseq's --user-dir takes: this package, or the one that TUPE_USER_DIR names."
    )
    assert "main" not in listed
    assert listed["average-checkpoints"].startswith("Writes the mean")


@pytest.mark.parametrize(
    ("argv", "wrong"), [([], "no command was given"), (["user_dir"], "there is no command 'user_dir'")]
)
def test_a_wrong_command_is_told_the_known_ones(argv, wrong, capsys):
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {wrong}: the commands of tupe are ")
    assert "user-dir" in err
    assert err.count("\n") == 1


def test_a_reader_that_stops_early_is_no_error():
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    done = subprocess.run([sys.executable, "-m", "tupe", "--help"], stdout=reader.stdin, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["python-docs", str(tmp_path / "file" / "out")]) == 1
    assert re.fullmatch(r"error: .*file is not a folder, so that .*out cannot be in it: .*\n", capsys.readouterr().err)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc, where nobody can make a folder")
def test_a_folder_that_cannot_be_made_is_named(capsys):
    assert main(["python-docs", "/proc/out"]) == 1
    said = "error: /proc/out cannot hold .tupe.lock (No such file or directory): give another folder.\n"
    assert capsys.readouterr().err == said


def test_an_error_of_the_system_names_the_file(monkeypatch, capsys):
    monkeypatch.setattr(module, "_run", lambda argv: Path("none/a").touch())
    assert main([]) == 1
    said = "error: none/a cannot be read or written (No such file or directory): give another place.\n"
    assert capsys.readouterr().err == said


def test_options_stand_anywhere(tmp_path, capsys):
    assert main(["prepare-corpus", str(tmp_path / "out"), "--vocab-size", "100", str(tmp_path / "none.txt")]) == 1
    assert "none.txt" in capsys.readouterr().err


def test_help_imports_no_torch():
    """What a user waits for on `tupe COMMAND --help`."""
    code = """
import contextlib, io, sys
from pathlib import Path
from tupe.cli import main
for path in Path(main.__file__).parent.glob("[!_]*.py"):
    if path.stem != "main":
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main.main([path.stem.replace("_", "-"), "--help"])
            sys.exit(f"{path.stem} has no --help")
        assert not {"torch", "fairseq"} & sys.modules.keys(), path.stem
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_error_is_one_line_whatever_is_in_it(monkeypatch, capsys):
    monkeypatch.setattr(module, "_run", lambda argv: raise_("a\n  b\x1b[2J\tc"))
    assert main([]) == 1
    assert capsys.readouterr().err == "error: a b\\x1b[2J\\tc\n"


def test_a_wrong_argument_is_a_sentence(capsys):
    with pytest.raises(SystemExit) as end:
        main(["sweep", "gleu", "CHECKPOINT", "DATA", "OUT"])
    assert end.value.code == 2
    assert re.fullmatch(r"error: .*'gleu'.*: see tupe sweep --help\.\n", capsys.readouterr().err)
    with pytest.raises(SystemExit):
        main(["sweep", "glue", "CHECKPOINT", "DATA"])
    assert capsys.readouterr().err == "error: the following arguments are required: out: see tupe sweep --help.\n"


def test_an_option_is_not_guessed_from_its_beginning(capsys):
    with pytest.raises(SystemExit):
        main(["systems", "--flag"])
    assert capsys.readouterr().err == "error: unrecognized arguments: --flag: see tupe systems --help.\n"


def raise_(text):
    raise UserError(text)
