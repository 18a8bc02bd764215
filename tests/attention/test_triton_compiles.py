"""The kernels compile for a GPU that is not here, fit its shared memory and keep its matrix units busy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_for_hopper(tmp_path):
    """Forward and backward of BERT's case, with padding and dropout: a dense bias, side by side too, and its parts."""
    pytest.importorskip("triton.backends.nvidia")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    command = [sys.executable, str(ROOT / "benchmarks" / "compile_kernels.py"), "--quick"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("_kernel") == 14, done.stdout
