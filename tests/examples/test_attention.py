"""The example runs as it is printed, also where PyTorch and this package are alone."""

import subprocess
import sys

from tests.commands import ROOT

ALONE = """
import runpy, sys
missing = ("fairseq", "hydra", "omegaconf", "sentencepiece", "tokenizers", "transformers", "yaml", "tqdm", "typer")
sys.modules.update(dict.fromkeys(missing))
sys.path.insert(0, "")
runpy.run_path("examples/attention.py")
"""


def test_the_example_needs_pytorch_alone():
    done = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("features (2, 10, 64), bias (4, 10, 10)\n")
