"""Run the examinations in order, print a line for each finding, and collect them for a bug report."""

import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from tupe.attention.verification.machine import interpreted
from tupe.doctor import gpus, installation, kernels, speed, training
from tupe.doctor.finding import Finding, Findings, Status, failed, note


def devices_here() -> list[torch.device]:
    """Return the GPUs; the CPU where there are none and Triton interprets its kernels there, as in tests."""
    if torch.cuda.is_available():
        return [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return [torch.device("cpu")] if interpreted() else []


def examinations(full: bool) -> Iterator[tuple[str, Callable[[], Findings]]]:
    """Yield the examinations for this machine. The first that fails explains why later ones fail."""
    devices = devices_here()
    yield "installation", installation.examine
    yield "GPUs", lambda: gpus.examine([device for device in devices if device.type == "cuda"])
    if not devices:
        return
    if importlib.util.find_spec("triton") is None:
        yield "kernels", lambda: iter([note("kernels", "not examined: Triton is not installed (pip install triton)")])
    else:
        yield "kernels", lambda: kernels.examine(devices, full)
    yield "training step", lambda: training.examine(devices)
    yield "speed", lambda: speed.examine(devices[-1])


def examine(full: bool, output: Path | None, say: Callable[[str], None] = print) -> bool:
    """Examine this machine and return whether nothing failed; `output` gets all findings as a JSON list."""
    found: list[Finding] = []
    start = time.monotonic()
    for name, examination in examinations(full):
        for finding in _guarded(name, examination):
            found.append(finding)
            say(finding.line())
    counts = {status: sum(finding.status is status for finding in found) for status in Status}
    summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    say(f"{time.monotonic() - start:.0f} s: {summary}")
    if output is not None:
        output.write_text(json.dumps([vars(finding) for finding in found], indent=2) + "\n", encoding="utf-8")
    return counts[Status.FAILED] == 0


def _guarded(name: str, examination: Callable[[], Findings]) -> Findings:
    """Yield the findings; an examination that raises is itself a finding, and the next one follows."""
    try:
        yield from examination()
    except Exception as error:  # anything may be wrong with this machine
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        yield failed(name, f"the examination itself failed ({said}): please report this with --json")
