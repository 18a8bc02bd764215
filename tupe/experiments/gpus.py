"""Give each run of a sweep a GPU of its own."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tupe.cores import visible_gpus
from tupe.files import lock


@contextlib.contextmanager
def one_gpu() -> Iterator[dict[str, str]]:
    """Wait for a GPU that no other run has; yield an environment in which a process sees only this GPU.

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
