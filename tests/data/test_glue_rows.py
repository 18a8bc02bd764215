"""Rows read are rows kept and rows counted, whatever bytes come; the table, and tasks of one's own."""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupe.data.glue.prepare import rows
from tupe.data.glue.tasks import TASKS, _own_task, read_tasks


def split_of(task, name):
    return next(split for split in TASKS[task].splits if split.name == name)


def read(path, raw, task, name):
    path.write_bytes(raw)
    counts = Counter()
    return list(rows(path, TASKS[task], split_of(task, name), counts)), counts


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("glue") / "file.tsv"


def test_cola_has_no_header_but_its_test_file_has(path):
    found, counts = read(path, b'gj04\t1\t\tA cat.\r\ngj04\t0\t*\t"A" "cat', "CoLA", "train")
    assert found == [(("A cat.",), "1"), (('"A" "cat',), "0")]
    assert counts == {"kept": 2}
    found, _ = read(path, b"index\tsentence\n0\tA cat.\n", "CoLA", "test")
    assert found == [(("A cat.",), None)]


def test_scores_are_scaled(path):
    raw = "index\tsentence1\tsentence2\tscore\n"
    for score in ("5.000", "0", "2.5", "5.1", "nan", "", "-1"):
        raw += f"0\tone\ttwo\t{score}\n"
    found, counts = read(path, raw.encode(), "STS-B", "train")
    assert [label for _, label in found] == ["1.0", "0.0", "0.5"]
    assert counts == {"kept": 3, "dropped": 4}


def test_byte_order_mark_and_columns_by_name(path):
    raw = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tone\ttwo"
    found, _ = read(path, raw.encode(), "MRPC", "train")
    assert found == [(("one", "two"), "1")]


def test_malformed_rows_are_dropped_but_in_a_test_file(path):
    raw = "index\tquestion\tsentence\tlabel\n" + "0\tWhy?\tSo.\tentailment\n" * 5
    raw += "1\tWhy?\tSo.\n\n2\tWhy?\tSo.\tmaybe\n3\tWhy?\tSo.\n4\ta\tb\tc\tentailment\n"
    found, counts = read(path, raw.encode(), "QNLI", "train")
    assert (len(found), counts) == (5, {"kept": 5, "dropped": 5})
    found, counts = read(path, b"index\tsentence1\tsentence2\n0\tone\ttwo\n1\tone\n2\tone\ttwo\n", "RTE", "test")
    assert [texts for texts, _ in found] == [("one", "two"), ("", ""), ("one", "two")]
    assert counts == {"kept": 2, "empty": 1}


def test_tasks_of_ones_own(tmp_path):
    (tmp_path / "train.tsv").write_text("\ufeffno\ttext\tanswer\nx\tYes?\tno\nx\tNo?\tyes\n", encoding="utf-8")
    (tmp_path / "test.tsv").write_text("text\nWhat?\n")
    (tmp_path / "mine.yaml").write_text(
        "quiz:\n  {train: train.tsv, test: test.tsv, texts: [text], label: answer, classes: [yes, no]}\n"
    )
    task = read_tasks(tmp_path / "mine.yaml", tmp_path)["quiz"]
    assert task.classes == ("yes", "no")  # not truth values
    assert [(split.name, split.labelled) for split in task.splits] == [("train", True), ("test", False)]
    found = [list(rows(tmp_path / split.files[0], task, split, Counter())) for split in task.splits]
    assert found == [[(("Yes?",), "no"), (("No?",), "yes")], [(("What?",), None)]]
    with pytest.raises(AssertionError, match="quiz has 3 texts"):
        _own_task("quiz", tmp_path, ["question", "answer", "source"])


PIECES = [b"\t", b"\n", b"\r", b"0", b"1", b"2.5", b"entailment", b"a b", b'"', b"\xef\xbb\xbf", b"\xff", b"\x00"]
SPLITS = [(name, split) for name, task in TASKS.items() for split in task.splits]


@settings(deadline=None)
@given(
    st.sampled_from(SPLITS), st.lists(st.binary(max_size=9) | st.sampled_from(PIECES)).map(b"".join), st.integers(0, 5)
)
def test_rows_in_are_rows_kept_and_rows_counted(path, task_and_split, raw, good):
    name, split = task_and_split
    task = TASKS[name]
    fields = {task.label: b"1" if task.scale else (task.classes or ("",))[0].encode()}
    columns = split.columns or ("index", *task.texts, task.label)
    header = "\t".join(columns).encode() + b"\n"
    row = b"\t".join(fields.get(column, b"x") for column in columns) + b"\n"
    body = row * good + raw
    path.write_bytes((b"" if split.columns else header) + body)
    counts = Counter()
    found = list(rows(path, task, split, counts))
    assert counts.total() == body.count(b"\n") + (body != b"" and not body.endswith(b"\n"))
    assert len(found) == counts["kept"] + counts["empty"] >= good
    assert counts["empty" if split.labelled else "dropped"] == 0
    for texts, label in found:
        assert len(texts) == len(task.texts)
        assert (label is None) == (not split.labelled)
        assert label is None or label in task.classes or 0 <= float(label) <= 1


@pytest.mark.skipif("TUPE_GLUE_DIR" not in os.environ, reason="TUPE_GLUE_DIR names no download of GLUE")
@pytest.mark.parametrize(("name", "split"), SPLITS, ids=lambda part: getattr(part, "name", part))
def test_the_real_files(name, split):
    files = [Path(os.environ["TUPE_GLUE_DIR"], file) for file in split.files]
    files = [file for file in files if file.is_file()]
    if not files:
        pytest.skip(f"the download has no {split.files[0]}")
    counts = Counter()
    for _ in rows(files[0], TASKS[name], split, counts):
        pass
    assert counts["dropped"] + counts["empty"] <= counts.total() / 1000
