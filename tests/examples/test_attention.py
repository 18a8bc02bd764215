"""The example runs as it is printed, also where there is no fairseq."""

import runpy
import subprocess
import sys

import pytest

from tests.commands import ROOT


def test_the_example_needs_no_fairseq():
    code = "import runpy, sys; sys.modules['fairseq'] = None; runpy.run_path('examples/attention.py')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("features (2, 10, 64), bias (4, 10, 10)\n")


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(ROOT / "examples/attention.py"))
