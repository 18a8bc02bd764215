"""The commands of docs/tutorial.md, as printed and in their order, with less training."""

import os
import re
import subprocess

import pytest

from tests.commands import REAL, ROOT

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
#: Beginning of a command -> what follows it here.
SHORTER = {
    "python examples/library_task.py": " 60",
    "CONFIG=quickstart": " optimization.max_update=40 dataset.validate_interval_updates=20",
    "tupe finetune": " optimization.max_epoch=1 dataset.num_workers=0",
}
NETWORK = "hf "


def lines():
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL):
        yield from block.splitlines()


def test_from_a_text_to_a_folder_for_the_hub(tmp_path):
    pytest.importorskip("transformers")
    for name in ("configs", "examples", "scripts", "tupe"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = {**os.environ, "PATH": REAL, "OMP_NUM_THREADS": "1"}
    used = set()

    def run(command):
        done = subprocess.run(
            command, shell=isinstance(command, str), cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    said = {}
    for line in lines():
        if line.startswith(NETWORK) or line == "source .venv/bin/activate":
            continue
        start = next((start for start in SHORTER if line.startswith(start)), "")
        used.add(start)
        said[line.split()[1]] = run(line + SHORTER.get(start, ""))
    assert used == {"", *SHORTER}  # else one of them is of no command

    out = tmp_path / "runs/tutorial"
    header, *rows = (out / "train.csv").read_text().splitlines()
    assert header == "text,label" and len(rows) == 3 * 60
    assert re.search(r"library: accuracy \d+\.\d+ at epoch 1", said["finetune"])
    assert len((out / "predictions/test.tsv").read_text().splitlines()) == 1 + 3 * (60 // 8)
    assert (out / "curves.png").stat().st_size > 5_000 and (out / "position.png").stat().st_size > 5_000

    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    answer = run(["python", "-c", code])
    assert re.search(r"'label': '(numpy|python|torch)'", answer)
    assert [line.split()[1] for line in lines() if line.startswith(NETWORK)] == ["auth", "upload"]


def test_the_text_and_the_task_have_no_document_in_common(tmp_path):
    """A sentence to be classified is in no document that the model was pre-trained on."""
    subprocess.run(
        ["python", ROOT / "examples/library_task.py", tmp_path, "40"], env={**os.environ, "PATH": REAL}, check=True
    )
    text = (tmp_path / "text.txt").read_text()
    for name in ("dev", "test"):
        rows = (tmp_path / f"{name}.csv").read_text().splitlines()[1:]
        assert rows and {row.rpartition(",")[2] for row in rows} == {"numpy", "python", "torch"}
        assert not [row for row in rows if row.rpartition(",")[0].strip('"') in text]
