import os
from pathlib import Path

import pytest

from tupe.data.glue.reader import Report, rows
from tupe.data.glue.tasks import TASKS

SPLITS = [(name, split) for name, task in TASKS.items() for split in (*task.splits, *task.otherwise)]


@pytest.mark.parametrize(("name", "split"), SPLITS, ids=lambda part: getattr(part, "name", part))
def test_columns_of_texts_and_labels_exist(name, split):
    task = TASKS[name]
    assert set(task.texts) <= set(split.columns)
    assert (task.label in split.columns) or not split.labelled
    assert bool(task.classes) != bool(task.scale)


def test_all_of_glue_is_there():
    assert list(TASKS) == ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI", "AX", "XNLI"]
    assert [split.name for split in TASKS["MNLI"].splits] == ["train", "valid", "valid1", "test", "test1"]
    assert TASKS["AX"].classes == TASKS["MNLI"].classes


@pytest.mark.skipif(
    "TUPE_GLUE_DIR" not in os.environ, reason="TUPE_GLUE_DIR, the folder of a GLUE download, is not set"
)
@pytest.mark.parametrize(("name", "split"), SPLITS, ids=lambda part: getattr(part, "name", part))
def test_the_real_files(name, split):
    files = [Path(os.environ["TUPE_GLUE_DIR"], file) for file in split.files]
    files = [file for file in files if file.is_file()]
    if not files:
        pytest.skip(f"the download has no {split.files[0]}")
    report = Report()
    assert sum(1 for _ in rows(files[0], TASKS[name], split, report, partial=True)) == report.kept
    assert report.read == report.kept + report.other_split + report.dropped
    assert report.dropped + report.empty <= report.read / 1000
