"""What `scripts/test.sh` says on a machine that lacks something. Nothing is installed here."""

import os
import re
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


def test_a_script_without_pytorch_says_what_to_run(clone, tmp_path):
    executable(tmp_path / "bin" / "python3", "#!/bin/sh\nexit 1\n")
    path = f"{tmp_path / 'bin'}:{clone / '.venv/bin'}:{os.environ['PATH']}"
    command = ["bash", str(clone / "scripts" / "glue.sh")]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"error: {tmp_path}/bin/python3 has no PyTorch or no fairseq: run bash scripts/test.sh, " in done.stderr
    assert re.findall(r"\S+\.md", done.stderr) == ["docs/faq.md"]
    assert "install it into an environment of my own" in (ROOT / "docs/faq.md").read_text()


@pytest.mark.parametrize("minor", [10, 14])
def test_python_too_old_or_too_new(minor, clone, tmp_path):
    code = f"import sys; sys.version_info = (3, {minor}, 0); exec(sys.argv[1])"
    other = executable(tmp_path / "python", f"#!/bin/sh\nexec '{sys.executable}' -c '{code}' \"$2\"\n")
    assert run(clone, PYTHON=other)[0].startswith("error: no Python of version 3.11, 3.12 or 3.13 runs as ")


def test_venv_whose_python_is_gone(clone):
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / ".venv" / "bin" / "python").symlink_to("/no/python")
    sentence, failed = run(clone)
    assert sentence.startswith("error: .venv holds no Python of version 3.11, 3.12 or 3.13 that runs: remove it")
    assert failed == FAILED


def test_no_compiler(clone):
    executable(clone / ".venv" / "bin" / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    sentence, failed = run(clone, CXX="no-such-compiler")
    assert sentence.startswith("error: there is no C++ compiler (no-such-compiler): install one")
    assert failed == FAILED
    assert not (clone / ".venv" / "installed").exists()


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


def test_wheels_where_no_folder_can_be(clone):
    command = ["bash", str(clone / "scripts/wheelhouse.sh")]
    done = subprocess.run([*command, "/dev/null/x"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: /dev/null/x cannot be a folder: name a place that can be written")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


def test_an_extra_that_there_is_not(clone, tmp_path):
    command = ["bash", str(clone / "scripts/wheelhouse.sh"), str(tmp_path / "wheels")]
    for extras, wrong in (("corpus,plots", "plots"), ("corpus, gpu dependencies", "dependencies"), (".*", ".*")):
        settings = {**os.environ, "EXTRAS": extras}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: EXTRAS names {wrong}, which is no extra of pyproject.toml: ")
