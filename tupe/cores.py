"""Count what this process may use: cores (by its affinity, and the share of its container) and GPUs."""

import math
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path


def available_cores(root: Path = Path("/")) -> int:
    """Count the cores that this process may use, at least 1; `root` is where `proc` and `sys` are."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(math.ceil(share) for share in _shares(root))]))


def _shares(root: Path) -> Iterator[float]:
    """Yield the cores that each control group of this process grants (Linux, versions 2 and 1)."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / controllers
        folder = mount / path.lstrip("/")
        for group in (folder, *folder.parents):
            try:
                if controllers:
                    quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
                else:
                    quota, period = (group / "cpu.max").read_text().split()
                if quota.strip() not in ("max", "-1"):
                    yield int(quota) / int(period)
            except (OSError, ValueError, ZeroDivisionError):
                pass  # the root group has no share, and inside a container the groups above are not seen
            if group == mount:
                break


def cpu_environment(threads: int) -> dict[str, str]:
    """Return the environment for a process of `threads` threads; variables that are set keep their values.

    Threads that wait for each other spin briefly, and glibc keeps the memory of tensors (docs/dev/performance.md).
    """
    best = {
        "OMP_NUM_THREADS": threads,
        "GOMP_SPINCOUNT": 100_000,
        "MALLOC_MMAP_THRESHOLD_": 1 << 30,
        "MALLOC_TRIM_THRESHOLD_": 1 << 30,
    }
    return {name: os.environ.get(name) or str(value) for name, value in best.items()}


def processor(root: Path = Path("/")) -> str:
    """Return the CPU's name, or its architecture without a name or Linux; `root` is where `proc` is."""
    try:
        lines = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def visible_gpus() -> list[str]:
    """List the GPUs of this machine that this process may use, as `CUDA_VISIBLE_DEVICES` names them.

    As in CUDA, -1 ends the list. Without the variable, nvidia-smi is asked; its lines for
    parts of a GPU (MIG) are not GPUs.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        gpus = [gpu.strip() for gpu in named.split(",")]
        return [gpu for gpu in gpus[: gpus.index("-1") if "-1" in gpus else None] if gpu]
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except OSError:
        return []
    number = sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    return [str(gpu) for gpu in range(number)] if done.returncode == 0 else []
