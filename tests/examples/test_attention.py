"""The example runs as it is printed, also where there is no fairseq; the how-tos of docs/attention.md do too."""

import re
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


BLOCKS = re.findall(r"## (.*?)\n.*?```python\n(.*?)```", (ROOT / "docs/attention.md").read_text(), re.DOTALL)


@pytest.mark.parametrize(("title", "code"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_how_to(title, code):
    """Each block is a program of its own, with assertions on what it shows."""
    assert "assert" in code
    exec(compile(code, f"docs/attention.md, {title}", "exec"), {})
