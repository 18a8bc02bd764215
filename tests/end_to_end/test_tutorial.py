"""The tutorial of docs/getting-started.md: its commands as printed, in their order, with less training."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.commands import ROOT, environment

PAGE = (ROOT / "docs/getting-started.md").read_text(encoding="utf-8").partition("\n## Tutorial\n")[2]
#: Beginning of a command -> what follows it here.
SHORTER = {
    "python examples/library_task.py": " 60",
    "tupe pretrain": " optimization.max_update=40 dataset.validate_interval_updates=20",
    "tupe finetune": " optimization.max_epoch=1 dataset.num_workers=0",
}
NETWORK = "hf "
FOLDER = "runs/tutorial"


def lines():
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL):
        yield from re.sub(r"\\\n *", "", block).splitlines()


def smaller_torch(folder):
    """Return a PYTHONPATH on which `torch` is `torch.nn` alone, since parsing the sources of all of it takes long."""
    nn = Path(importlib.util.find_spec("torch").origin).parent / "nn"
    shutil.copytree(nn, folder / "smaller/torch/nn")
    (folder / "smaller/torch/__init__.py").touch()
    return f"{folder / 'smaller'}{os.pathsep}{ROOT}"


def test_from_a_text_to_a_folder_for_the_hub(tmp_path):
    pytest.importorskip("accelerate")
    out, used = tmp_path / "tutorial", set()

    def run(command, **more):
        done = subprocess.run(
            command, shell=isinstance(command, str), cwd=ROOT, env=environment(**more), capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    said = {}
    for line in lines():
        if line.startswith(NETWORK) or line == "source .venv/bin/activate":
            continue
        start = next((start for start in SHORTER if line.startswith(start)), "")
        used.add(start)
        more = {"PYTHONPATH": smaller_torch(tmp_path)} if start.startswith("python") else {}
        said[line.split()[1]] = run((line + SHORTER.get(start, "")).replace(FOLDER, str(out)), **more)
    assert used == {"", *SHORTER}  # else one of them is of no command

    header, *rows = (out / "train.tsv").read_text().splitlines()
    assert header == "text\tlabel" and len(rows) == 3 * 60
    tested = [line.split("\t")[0] for line in (out / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    text = (out / "text.txt").read_text(encoding="utf-8")
    assert sum(sentence in text for sentence in tested) < len(tested) / 10  # a short one may be part of another
    assert re.search(r"library: accuracy \d+\.\d+ at epoch 1", said["finetune"])
    assert re.search(r"accuracy \d+\.\d+, .*predictions: ", said["predict"])
    assert "eval_accuracy" in said["examples/finetune_with_transformers.py"]
    assert len((out / "predictions/library.tsv").read_text().splitlines()) == 1 + 3 * (60 // 8)
    assert (out / "curves.png").stat().st_size > 5_000 and (out / "position.png").stat().st_size > 5_000

    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    answer = run(["python", "-c", code.replace(FOLDER, str(out))])
    assert re.search(r"'label': '(numpy|python|torch)'", answer)
    assert [line.split()[1] for line in lines() if line.startswith(NETWORK)] == ["auth", "upload"]
