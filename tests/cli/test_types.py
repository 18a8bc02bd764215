import argparse
import os

import pytest

from tupe.cli._labels import split_label
from tupe.cli._types import check_outputs, listed, new_file, output_file, output_folder, real, whole
from tupe.cli.main import COMMANDS, main, parser_of
from tupe.errors import UserError

#: Commands that write nothing but the screen, or go on in a folder that they are given.
NO_OUTPUT = {
    *("bleu", "config-dir", "describe", "export-onnx", "finetune", "finetuning-result", "model-overrides", "plan"),
    *("qa-score", "quickstart-report", "study-report", "systems", "user-dir"),
}


@pytest.mark.parametrize("kind", [whole(1, 9), real(0, 1)])
@pytest.mark.parametrize("text", ["-1", "10", "1e30", "nan", "inf", "", "x", "9" * 5000])
def test_a_number_out_of_bounds_is_refused(kind, text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"^.{0,40} is not a (whole )?number from \d to \d$"):
        kind(text)


@pytest.mark.parametrize("argument", ["a=", "="])
def test_a_label_without_a_path(argument):
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{argument} names no path"):
        split_label(argument)


def test_numbers():
    assert [whole(1, 9)("1"), whole(1, 9)("9"), real(0, 1)("0.5")] == [1, 9, 0.5]
    assert listed(whole(0))("3,1 3") == [3, 1]


@pytest.mark.parametrize(
    "command",
    [
        "plot ranks a --data b --output c --sequences -1",
        "report a b --sequences 0",
        "systems --max-positions 0",
        "systems --vocab-size 99999999999",
        "describe tupe_base --vocab-size -1",
        "prepare-corpus a b --vocab-size 8",
        "translate a --length-penalty 1e30",
        "translate a --beam 0",
        "prepare-translation a b c --train d --valid e --max-ratio inf",
        "plan a b --nodes 0",
        "plan a b --processes 0",
        "plan a b --gpus -2",
        "plan a b --gpu h100 --mfu 40",
        "prepare-glue a b c --workers 0",
        "prepare-corpus a b --max-tokens 0",
        "study --jobs -1",
        "study --minutes 0",
        "sweep glue a b c --seeds 1,-1",
        "predict a b c --doc-stride 0",
    ],
)
def test_a_wrong_number_is_a_sentence(command, capsys):
    with pytest.raises(SystemExit) as end:
        main(command.split())
    assert end.value.code == 2
    error = capsys.readouterr().err
    option, value = command.split()[-2:]
    assert (
        error.startswith(f"error: argument {option}: {value.rpartition(',')[2]} is not a ") and error.count("\n") == 1
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_outputs_and_numbers_have_types_that_check_them(command):
    """Every command writes what is called so."""
    kinds = {action.dest: action.type for action in parser_of(command)._actions}
    outputs = {name for name, kind in kinds.items() if kind in (new_file, output_file, output_folder)}
    assert {"out", "output"} & kinds.keys() <= outputs
    assert bool(outputs) == (command not in NO_OUTPUT)
    assert not {int, float} & {*kinds.values()}


@pytest.fixture
def parse():
    def parse(*words):
        parser = argparse.ArgumentParser()
        parser.add_argument("things", type=split_label, nargs="*")
        for kind in (new_file, output_file, output_folder):
            parser.add_argument(f"--{kind.__name__}", type=kind)
        check_outputs(parser, parser.parse_args([*map(str, words)]))

    return parse


@pytest.mark.parametrize("make", [os.symlink, os.link, None])
@pytest.mark.parametrize("kind", ["output_file", "new_file"])
def test_an_output_is_no_input(make, kind, parse, tmp_path):
    (tmp_path / "a.txt").write_text("a text")
    out = tmp_path / ("b.txt" if make else "a.txt")
    if make:
        make(tmp_path / "a.txt", out)
    with pytest.raises(UserError, match=r"a\.txt,? (is )?what the command reads: give another name"):
        parse(f"A={tmp_path / 'a.txt'}", f"--{kind}", out)


def test_a_folder_is_no_input(parse, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    for out in (tmp_path, tmp_path / "link"):
        with pytest.raises(UserError, match="what the command reads"):
            parse(tmp_path, "--output_folder", out)
    parse(tmp_path, "--output_folder", tmp_path / "new")


def test_a_new_file_is_new(parse, tmp_path):
    parse("--new_file", tmp_path / "a")
    (tmp_path / "a").touch()
    with pytest.raises(UserError, match="is there already"):
        parse("--new_file", tmp_path / "a")


@pytest.mark.parametrize("kind", ["output_file", "new_file"])
def test_where_no_file_can_be_is_said_before_the_work(kind, parse, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"/file cannot be a folder, because a file is in its place"):
        parse(f"--{kind}", tmp_path / "file/new/a.png")
    parse(f"--{kind}", tmp_path / "new/a.png")
    monkeypatch.setattr(os, "access", lambda place, _: place != tmp_path)  # root may write anywhere
    with pytest.raises(UserError, match=r"a\.png cannot be written \(no permission in "):
        parse(f"--{kind}", tmp_path / "new/a.png")


def test_two_outputs_are_two_files(parse, tmp_path):
    with pytest.raises(UserError, match=r"^two outputs are called .*a\.png: give each its own name"):
        parse("--output_file", tmp_path / "a.png", "--new_file", tmp_path / "a.png")
