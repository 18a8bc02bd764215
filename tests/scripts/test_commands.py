"""What the scripts give to `tupe`, which records it, from a clone and of folders with any names."""

import json
import shutil

import pytest

from tests.commands import ROOT, run

ODD = "a (folder), {é}=[1] #~;&*"
RECORDER = """
import json, os, sys
from pathlib import Path

Path(os.environ["RECORD"]).write_text(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def clone(tmp_path):
    """`clone(script, ...)`: the process, and the arguments of `tupe` in a clone whose package is not installed."""
    root, here, record = tmp_path / ODD, tmp_path / "elsewhere", tmp_path / "record"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    (root / "tupe").mkdir()
    (root / "tupe/__init__.py").touch()  # a package, as a whole one that PYTHONPATH names would come first
    (root / "tupe/__main__.py").write_text(RECORDER)
    here.mkdir()

    def clone(script, *arguments, **environment):
        done = run(
            "bash", root / "scripts" / script, *arguments, cwd=here, check=False, RECORD=str(record), **environment
        )
        return done, json.loads(record.read_text()) if record.exists() else None

    return clone


OTHERS = ["a b", "it's", "c,d=[1]", "-x"]


@pytest.mark.parametrize(
    ("script", "command", "environment"),
    [
        ("prepare_glue.sh", ["prepare-glue", *OTHERS[:2], OTHERS[3], OTHERS[2]], {}),
        ("finetune_glue.sh", ["finetune", *OTHERS], {}),
        ("glue.sh", ["sweep", "glue", "--lrs=1e-3,2e-5", *OTHERS], {"LRS": "1e-3,2e-5"}),
        ("xtreme.sh", ["sweep", "xtreme", "--seeds=1", *OTHERS], {"SEEDS": "1"}),
        ("pretrain.sh", ["pretrain", *OTHERS, "--config", "diet", "--gpus", "0"], {"CONFIG": "diet", "GPUS": "0"}),
    ],
)
def test_arguments_go_through(script, command, environment, clone):
    assert clone(script, *OTHERS, **environment)[1] == command


def test_the_quickstart_leaves_what_is_of_others(tmp_path):
    (tmp_path / "notes").write_text("mine")
    done = run("bash", "scripts/quickstart.sh", check=False, QUICKSTART_OUT=str(tmp_path), QUICKSTART_INSTALL="0")
    assert done.returncode == 1
    assert f"error: {tmp_path} holds files that quickstart.sh did not write" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
