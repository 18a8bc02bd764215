"""The processor, and how many cores this process may really use: its affinity, and the share of its container."""

from __future__ import annotations

import math
import os
import platform
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


def processor(root: Path = Path("/")) -> str:
    """The CPU's name; its kind where it has none, or where this is not Linux. `root` is where `proc` is."""
    try:
        lines = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    print(available_cores())
