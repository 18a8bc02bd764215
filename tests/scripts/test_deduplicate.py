"""`scripts/deduplicate.py`, by the Python that TUPE_DATATROVE names: one with `pip install '.[machines]'`."""

import json
import os
import random
import subprocess

import pytest

from tests.commands import ROOT

PYTHON = os.environ.get("TUPE_DATATROVE")
opt_in = pytest.mark.skipif(PYTHON is None, reason="TUPE_DATATROVE names no Python that has datatrove")


def deduplicate(folder, *options):
    command = [PYTHON, ROOT / "scripts/deduplicate.py", folder, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    """Four files of 25 documents of ten lines, of which there are 300 different ones."""
    draw = random.Random(0)
    (tmp_path / "in").mkdir()
    for number in range(4):
        documents = ("\n".join(f"line {draw.randrange(300)}" for _ in range(10)) for _ in range(25))
        records = (json.dumps({"id": f"{number}-{i}", "text": text}) for i, text in enumerate(documents))
        (tmp_path / f"in/{number}.jsonl").write_text("".join(f"{record}\n" for record in records))
    return tmp_path


def lines(folder):
    for path in sorted(folder.glob("*.jsonl")):
        for record in path.read_text().splitlines():
            yield from filter(None, json.loads(record)["text"].split("\n"))


@opt_in
def test_every_line_is_kept_once_by_several_machines(folder):
    """Each of two does half of the tasks of a step; the third step waits for all of the second."""
    different = sorted(set(lines(folder / "in")))
    for step, first in ((0, 0), (0, 2), (1, 0)):
        done = deduplicate(folder, 4, "--step", step, "--first", first, "--count", 2)
        assert done.returncode == 0, done.stderr
    early = deduplicate(folder, 4, "--step", 2)
    assert early.returncode == 1
    assert early.stderr.endswith("Step 2 needs all 4 tasks of step 1, but 2 are done.\n")
    done = deduplicate(folder, 4, "--workers", 2)  # what is left
    assert done.returncode == 0, done.stderr
    assert sorted(lines(folder / "out")) == different
    again = deduplicate(folder, 2)
    assert again.returncode == 1
    assert "was started with tasks = 4, not 2" in again.stderr
