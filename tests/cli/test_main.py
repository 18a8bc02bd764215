import subprocess
import sys
from pathlib import Path

from tupe.cli import main as module
from tupe.cli.main import COMMANDS, GROUPS, OF_SCRIPTS, main, status
from tupe.util import UserError


def test_help_lists_every_command_with_a_line(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    listed = dict(line.split(None, 1) for line in text.splitlines() if line.startswith("  "))
    assert list(listed) == [name for names in GROUPS.values() for name in names]
    assert all(f"\n\n{group}:\n" in text for group in GROUPS)
    assert listed["average-checkpoints"].startswith("Writes the mean")
    assert not listed.keys() & set(OF_SCRIPTS)
    assert main([]) == 0
    assert capsys.readouterr().out == text


def test_every_file_is_a_command_of_one_group():
    files = {path.stem.rstrip("_").replace("_", "-") for path in Path(module.__file__).parent.glob("[!_]*.py")}
    assert sorted(files - {"main"}) == sorted(COMMANDS)


def test_a_wrong_command(capsys):
    assert main(["tabel"]) == 1
    assert capsys.readouterr() == ("", "error: There is no command tabel. `tupe --help` lists the commands.\n")


def test_a_reader_that_stops_early_is_no_error():
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    done = subprocess.run([sys.executable, "-m", "tupe", "--help"], stdout=reader.stdin, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_error_for_users_has_no_traceback(capsys):
    def work():
        raise UserError("what and why")

    assert status(work) == 1
    assert capsys.readouterr().err == "error: what and why\n"


def test_options_stand_anywhere():
    assert main(["systems", "--vocab-size", "100", "--max-positions", "16"]) == 0
    assert main(["describe", "--vocab-size", "100", "tupe_tiny", "--max-positions", "16", "reset=none"]) == 0


def test_help_imports_no_torch():
    """What a user waits for on `tupe COMMAND --help`."""
    code = """
import contextlib, io, sys
from tupe.cli import main
for name in main.COMMANDS:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main.main([name, "--help"])
        sys.exit(f"{name} has no --help")
    assert not {"torch", "fairseq"} & sys.modules.keys(), name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_output_that_exists_is_refused_before_the_work(tmp_path, capsys):
    out = tmp_path / "out"
    out.touch()
    for command in (
        ["average-checkpoints", str(out), "a.pt"],
        ["plot", "training", "run", "--output", str(out)],
        ["report", str(out), "a.pt"],
        ["warm-start", "a.pt", str(out), "tupe_r"],
    ):
        assert main(command) == 1
        assert capsys.readouterr().err == f"error: {out} exists. Delete it or choose another name.\n"
