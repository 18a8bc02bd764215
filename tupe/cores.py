"""Counts what this process may really use: cores (by its affinity, and the share of its container) and GPUs."""

import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def available_cores(root: Path = Path("/")) -> int:
    """At least 1. `root` is where `proc` and `sys` are."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([allowed, *(math.ceil(share) for share in _shares(root))]))


def _shares(root: Path) -> Iterator[float]:
    """The cores that each control group above this process grants (Linux, versions 2 and 1)."""
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


def cpu_environment(processes: int = 1, root: Path = Path("/")) -> dict[str, str]:
    """Return the environment for each of `processes` that train on this CPU; variables that are set keep their values.

    Each gets its share of the cores, and a glibc that keeps the memory of tensors. Threads that wait for each other
    spin briefly; where other work runs on the cores now, they sleep almost at once (docs/performance.md).
    """
    cores = available_cores(root)
    crowded = cores + _running(root) > (os.cpu_count() or 1)
    best = {
        "OMP_NUM_THREADS": max(1, cores // processes),
        "GOMP_SPINCOUNT": 1_000 if crowded else 100_000,
        "MALLOC_MMAP_THRESHOLD_": 1 << 30,
        "MALLOC_TRIM_THRESHOLD_": 1 << 30,
    }
    return {name: os.environ.get(name) or str(value) for name, value in best.items()}


def _running(root: Path) -> int:
    """Count the threads that want a core now, this one left out; 0 where the system does not say (not Linux)."""
    try:
        return int((root / "proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
    except (OSError, ValueError, IndexError):
        return 0


def processor(root: Path = Path("/")) -> str:
    """The CPU's name; its kind where it has none, or where this is not Linux. `root` is where `proc` is."""
    try:
        lines = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def visible_gpus() -> list[str]:
    """List the GPUs of this machine that this process may use, as `CUDA_VISIBLE_DEVICES` names them.

    As in CUDA, what comes after an invalid -1 does not count. Without the variable, nvidia-smi is asked; its lines for
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


if __name__ == "__main__":
    match sys.argv[1:]:  # of the scripts
        case []:
            print(available_cores())
        case ["gpus"]:
            print(len(visible_gpus()))
        case [processes]:
            print(*(f"{name}={value}" for name, value in cpu_environment(int(processes)).items()), sep="\n")
