"""Python ends while threads of fairseq's are in PyTorch."""

import subprocess
import sys

from tests.commands import ROOT, environment

PROGRAM = """
import sys, time, torch
import tupe.fairseq_patches
tupe.fairseq_patches.install()
from fairseq.data.iterators import BufferedIterator

class Batches(list):
    def __iter__(self):
        while True:
            yield torch.rand(1_000_000).sort()[0]

both = [BufferedIterator(size, Batches(range(1000))) for size in (1, 100)]
for batches in both:
    next(batches)
time.sleep(0.5)
sys.exit(3)
"""


def test_the_exit_status_is_that_of_the_run():
    """One thread waits for room, the other is at work."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "terminate called" not in done.stderr
