"""Every script x arguments that no shell, Hydra or terminal may obey: one sentence, exit status 1, nothing left behind.

What the commands read is in tests/cli/test_inputs.py; here is what stands between a user and them.
"""

import os
import re
import subprocess
import sys

import pytest

from tests.cli.test_inputs import HOSTILE, tree
from tests.commands import ROOT, environment

#: The arguments of each script, all of which are wrong where {} is.
SCRIPTS = {
    "deduplicate.py": ["{}", "4"],
    "draw_tupe.py": ["{}"],
    "finetune_glue.sh": ["CoLA", "{}", "{}", "checkpoint.save_dir={}"],
    "glue.sh": ["{}", "{}", "{}"],
    "prepare_corpus.sh": ["{}", "{}"],
    "prepare_glue.sh": ["{}", "{}", "{}", "CoLA"],
    "prepare_translation.sh": ["{}", "en", "de", "--train={}", "--valid={}"],
    "pretrain.sh": ["{}", "checkpoint.save_dir={}"],
    "study.sh": ["{}", "--out={}"],
    "translate.sh": ["{}", "{}", "--data={}"],
    "translate_train.sh": ["{}", "checkpoint.save_dir={}"],
    "wheelhouse.sh": ["/dev/null/{}"],
    "xtreme.sh": ["{}", "{}", "{}"],
}
#: They take no arguments, or are rows of tests/scripts/test_sbatch.py.
WITHOUT = {"quickstart.sh", "test.sh", "pretrain.sbatch"}
WRONG = {"hostile": os.fsencode(f"{HOSTILE} $(touch witness) `touch witness`; touch witness"), "not UTF-8": b"\xff"}


def test_every_script_is_in_the_table():
    assert {path.name for path in (ROOT / "scripts").glob("*.*")} == {*SCRIPTS, *WITHOUT}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_wrong_is_one_sentence(script, kind, tmp_path):
    wrong = os.fsencode(tmp_path) + b"/" + WRONG[kind]
    arguments = [os.fsencode(argument).replace(b"{}", wrong) for argument in SCRIPTS[script]]
    python = script.endswith(".py")
    done = subprocess.run(
        [sys.executable if python else "bash", ROOT / "scripts" / script, *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        env=environment(GPUS="0"),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert re.fullmatch(r"error: [^\n\x1b]+\n", done.stderr), done.stderr
    assert tree(tmp_path) == {}
