"""Which GPU a run of a sweep gets: two runs never share one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tupe.files import lock


def visible_gpus() -> list[str]:
    """The GPUs of this machine that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [gpu for gpu in named.split(",") if gpu]
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return [str(number) for number in range(len(done.stdout.splitlines()))] if done.returncode == 0 else []


@contextlib.contextmanager
def one_gpu() -> Iterator[dict[str, str]]:
    """Waits for a GPU that no other run has; yields the environment that shows a process this one alone.

    Where only one is visible, as in a SLURM job, or none, there is nothing to choose.
    """
    gpus = visible_gpus()
    if len(gpus) < 2:
        yield {}
        return
    folder = Path(tempfile.gettempdir(), f"tupe-gpus-{os.getuid()}")
    while True:
        for gpu in gpus:
            with lock(folder / f"{gpu}.lock") as mine:
                if mine:
                    yield {"CUDA_VISIBLE_DEVICES": gpu}
                    return
        time.sleep(1)
