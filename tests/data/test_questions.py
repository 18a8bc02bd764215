"""`tupe prepare-qa`: every question accounted for, in pieces that lead back to its answer."""

import json
import lzma
import shutil

import numpy as np
import pytest

from tests.data.conftest import LINES, squad, write_json
from tupe.cli.main import main
from tupe.data.manifest import DICTIONARY, REPORT, check_files
from tupe.data.questions import read
from tupe.util import UserError

GOOD = squad(
    (LINES["en"], [("a", " What stands?", "old house"), ("b", "Where?", "New York", "York"), ("c", "", "sea")]),
    (LINES["zh"], [("d", "哪里？", "城市的河边")]),
)


def prepare(corpus, out, *files, code=0):
    assert main(["prepare-qa", *map(str, files), str(corpus), str(out), "--workers", "1"]) == code


def test_every_question_is_there(corpus, tmp_path, capsys):
    content = squad(
        (LINES["en"], [("a", "What?", "old house"), ("moved", "Where?", "New York"), ("none", "?", "")]),
        ("the river", [("blank", "?", " "), ("unasked", " ", "river")]),
    )
    content["data"][0]["paragraphs"][0]["qas"][1]["answers"][0]["answer_start"] += 1
    path = write_json(tmp_path / "x.json", content)
    prepare(corpus, tmp_path / "out", f"train={path}", f"valid={path}")
    printed = capsys.readouterr().out
    assert "train    1 kept: 2 contexts, " in printed and "valid    5 kept: 2 contexts, " in printed
    counts = json.loads((tmp_path / "out/train" / REPORT).read_text())["counts"]
    assert counts.pop("pieces") > counts.pop("unknown pieces") == 0
    assert counts == {"contexts": 2, "questions with a target": 1, "questions without a target": 4}
    assert np.load(tmp_path / "out/train/examples.npy")[:, 0].tolist() == [0]
    examples = np.load(tmp_path / "out/valid/examples.npy")
    assert examples[:, :2].tolist() == [[0, 0], [1, 0], [2, 0], [3, 1], [4, 1]]
    assert (examples[1:, 2:] == -1).all()
    assert (tmp_path / "out/valid/questions.json").read_bytes() == path.read_bytes()


def test_splits_are_added_and_kept(corpus, tmp_path, capsys):
    path, out = write_json(tmp_path / "x.json", GOOD), tmp_path / "out"
    prepare(corpus, out, f"train={path}")
    before = (out / "train" / REPORT).stat().st_mtime_ns
    prepare(corpus, out, f"train={path}", f"valid-zh={path}")
    assert (out / "train" / REPORT).stat().st_mtime_ns == before
    assert json.loads((out / "valid-zh" / REPORT).read_text())["language"] == "zh"
    other = write_json(tmp_path / "other.json", squad((LINES["en"], [("z", "?", "sea")])))
    prepare(corpus, out, f"train={other}", code=1)
    assert "was made from x.json" in capsys.readouterr().err
    prepare(corpus, out, f"train={path}", "--rules", "mlqa", code=1)
    assert "was started with rules = squad, not mlqa" in capsys.readouterr().err
    assert (out / DICTIONARY).read_bytes() == (corpus / DICTIONARY).read_bytes()
    check_files(out)
    shutil.copyfile(out / "train/begin.bin", out / "valid-zh/end.bin")
    with pytest.raises(UserError, match=r"valid-zh/end\.bin is not the file that was prepared"):
        check_files(out)


def test_texts_are_as_they_stand(tmp_path):
    context = "  A\r\nline\tand \u2028 more 😀."
    content = squad((context, [("a", "  what?", "line"), ("b", "", "")]))
    for path in (tmp_path / "plain.json", tmp_path / "escaped.json", tmp_path / "packed.json.xz"):
        text = json.dumps(content, ensure_ascii=path.stem == "escaped").encode()
        path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)
        (paragraph,) = read(path)
        assert paragraph["context"] == context
        first, second = paragraph["qas"]
        assert first["question"] == "  what?" and second["question"] == ""
        assert first["answers"] == [{"text": "line", "answer_start": context.find("line")}]
        assert second["answers"] == []  # as XTREME keeps answers back
