"""What `scripts/test.sh` says on a machine that lacks something. Nothing is installed here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT


@pytest.fixture
def clone(tmp_path) -> Path:
    folder = tmp_path / "a clone"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for path in [ROOT / "constraints.txt", ROOT / "setup.py", ROOT / "pyproject.toml"]:
        shutil.copy(path, folder)
    return folder


def run(clone: Path, **env: str) -> list[str]:
    """The last two lines of a run that fails."""
    done = subprocess.run(
        ["bash", str(clone / "scripts" / "test.sh")],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout
    return done.stdout.splitlines()[-2:]


def executable(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


FAILED = "test.sh: FAILED in step install (see runs/test/install.log)"


def test_no_python(clone):
    sentence, failed = run(clone, PYTHON="/no/python")
    assert sentence.startswith("error: no Python of version 3.11, 3.12 or 3.13 runs as /no/python: install one")
    assert failed == FAILED


#: A complete `.venv`: its Python is the tests', but collects no wheels.
COLLECTS = """#!/usr/bin/env bash
case "$*" in
    "- "*) echo complete ;;
    *"pip wheel"*) printf '%s\\n' "$@" >"$RECORD" && touch "$WHEELS/tupe-0.2.0-py3-none-any.whl" ;;
    *) exec {python} "$@" ;;
esac
"""


def test_wheels_are_collected_with_the_pins(clone, tmp_path):
    executable(clone / ".venv/bin/python", COLLECTS.replace("{python}", f'"{sys.executable}"'))
    (clone / ".venv/installed").write_text("complete\n")
    (tmp_path / "elsewhere").mkdir()
    wheels, record = tmp_path / "elsewhere/my wheels", tmp_path / "record"
    command = ["bash", str(clone / "scripts/wheelhouse.sh")]
    settings = {**os.environ, "WHEELS": str(wheels), "RECORD": str(record), "EXTRAS": "corpus", "PYTHON": ""}
    done = subprocess.run([*command, "my wheels"], cwd=wheels.parent, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    given = record.read_text().splitlines()
    assert given[-4:] == ["constraints.txt", "--wheel-dir", str(wheels), ".[corpus]"]
    assert "--no-build-isolation" in given  # fairseq is built against the PyTorch of .venv
    assert done.stdout.splitlines()[-1].startswith("wheelhouse.sh: done (1 wheels, ")
    assert "installed" in {path.name for path in (clone / ".venv").iterdir()}
