import errno
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from tupe.cli import main as module
from tupe.cli.main import COMMANDS, GROUPS, OF_SCRIPTS, RENAMED, main, parser_of, status
from tupe.errors import UserError


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


@pytest.mark.parametrize(
    ("wrong", "meant"), [("user_dir", "user-dir"), ("translat", "translate"), ("tabel", "table"), ("--output", None)]
)
def test_a_wrong_command_is_told_the_nearest(wrong, meant, capsys):
    assert main([wrong]) == 1
    near = f"did you mean {meant}? " if meant else ""
    said = f"error: there is no command '{wrong}': {near}tupe --help lists the commands.\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("name", RENAMED)
def test_a_former_name_works_and_says_the_new_one(name, tmp_path, capsys):
    """The new one's help, which a wrong value would not reach."""
    now = " ".join(RENAMED[name])
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: tupe {RENAMED[name][0]} ")
    assert err == f"warning: tupe {name} is now tupe {now}; version 0.3.0 ends the old name\n"
    parser_of(RENAMED[name][0]).parse_args([*RENAMED[name][1:], "a", "b", "c", *["--output", "d"] * ("plot" in name)])


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


def test_an_error_of_the_system_without_a_file_says_where_to_look(monkeypatch, capsys):
    monkeypatch.setattr(module, "_run", mock.Mock(side_effect=OSError(errno.EFBIG, "File too large")))
    assert main(["systems"]) == 1
    said = (
        "error: a file cannot be read or written (File too large): look at the disks, and at the limits by ulimit -a.\n"
    )
    assert capsys.readouterr().err == said


def test_a_package_that_is_missing_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tupe.cli.systems", None)
    with pytest.raises(ModuleNotFoundError):  # a mistake of ours keeps its traceback
        main(["systems"])
    monkeypatch.delitem(sys.modules, "tupe.cli.describe", raising=False)
    monkeypatch.delitem(sys.modules, "tupe.analysis.checkpoint", raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert main(["describe", "tupe_base"]) == 1
    said = "error: the command needs yaml, which is not installed: install tupe without --no-deps (docs/faq.md)"
    assert capsys.readouterr().err.startswith(said)


def test_options_stand_anywhere(tmp_path, capsys):
    assert main(["prepare-corpus", str(tmp_path / "out"), "--vocab-size", "100", str(tmp_path / "none.txt")]) == 1
    assert "none.txt" in capsys.readouterr().err


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
    assert capsys.readouterr().err == "error: the following arguments are required: OUT: see tupe sweep --help.\n"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179122696 bytes."),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB."),
    ],
)
def test_too_little_memory_is_a_sentence(error, capsys):
    assert status(mock.Mock(side_effect=error), []) == 1
    assert capsys.readouterr().err.startswith("error: there is too little memory for these sizes: give smaller ones")
    with pytest.raises(RuntimeError, match="another"):
        status(mock.Mock(side_effect=RuntimeError("another")), [])


def test_two_dashes_are_no_value(capsys):
    assert main(["systems", "--vocab-size=--"]) == 1  # argparse takes them away
    assert capsys.readouterr().err == "error: --vocab-size has the value '--', which is none: give another one.\n"
    assert status(lambda: None, ["--batch=--"]) == 1


def test_a_table_that_is_printed_has_no_document(capsys):
    with pytest.raises(SystemExit):
        main(["study-report", "--print", "glue", "--document", "results.md"])
    assert "--document: not allowed with argument --print" in capsys.readouterr().err


def test_an_option_is_not_guessed_from_its_beginning(capsys):
    with pytest.raises(SystemExit):
        main(["systems", "--flag"])
    assert capsys.readouterr().err == "error: unrecognized arguments: --flag: see tupe systems --help.\n"
    with pytest.raises(SystemExit):
        main(["finetune", "CoLA", "a.pt", "DATA", "--save-dir", "OUT"])
    said = capsys.readouterr().err
    assert "give settings as key=value, such as checkpoint.save_dir=OUT; see tupe finetune --help.\n" in said


def raise_(text):
    raise UserError(text)


@pytest.mark.parametrize(
    "words", [["finetuning-result", ""], ["describe", " "], ["table", "a", "--output="], ["plan", "a", "b", "c.d="]]
)
def test_an_empty_argument_is_no_folder(words, capsys):
    """`tupe finetuning-result "$RUN"` without RUN would look where the command runs."""
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("error: an argument is empty")
