"""`scripts/wheelhouse.sh` with a stand-in for pip. Nothing is installed here."""

import os
import shutil
import subprocess
import sys

from tests.commands import ROOT

#: A complete `.venv`: its Python is the tests', but collects no wheels.
COLLECTS = """#!/usr/bin/env bash
case "$*" in
    *"pip wheel"*) printf '%s\\n' "$@" >"$RECORD" && touch "$WHEELS/tupe-0.2.0-py3-none-any.whl" ;;
    *) exec {python} "$@" ;;
esac
"""


def test_wheels_are_collected_with_the_pins(tmp_path):
    clone = tmp_path / "a clone"
    shutil.copytree(ROOT / "scripts", clone / "scripts")
    for name in ("constraints.txt", "setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    python = clone / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(COLLECTS.replace("{python}", f'"{sys.executable}"'))
    python.chmod(0o755)
    stamp = 'echo "$(pwd) $(cat constraints.txt pyproject.toml setup.py scripts/lib/install.sh | cksum) test"'
    (clone / ".venv/installed").write_bytes(subprocess.check_output(["bash", "-c", stamp], cwd=clone))
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
