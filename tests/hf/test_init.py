"""A torchaudio that does not load is hidden from Transformers."""

import os
import subprocess
import sys

import pytest

from tests.commands import ROOT
from tests.conftest import write

pytest.importorskip("transformers")


def test_a_torchaudio_that_does_not_load(tmp_path):
    write(tmp_path / "torchaudio/__init__.py", ["raise OSError('no libc10_cuda.so')"])
    code = "import tupe.hf; import transformers.trainer"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
