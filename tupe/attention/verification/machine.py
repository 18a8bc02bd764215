"""Name what decides the machine code of a kernel: the GPU, its driver, Triton, ptxas and the kernels' source."""

import functools
import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from tupe.attention.verification.compiler import ptxas, ptxas_version

_ATTENTION = Path(__file__).resolve().parents[1]
_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Machine:
    """Machine that a record of checked kernels holds for; with any other value the kernels are checked again.

    capability: of the GPU, such as "9.0".
    driver, triton, ptxas: versions.
    kernels: digest of the kernels' source, which changes where the version of this package may not.
    """

    gpu: str
    capability: str
    driver: str
    triton: str
    ptxas: str
    kernels: str

    @classmethod
    def of(cls, device: torch.device) -> "Machine":
        """Describe `device`. A CPU stands for Triton's interpreter, which tests use in place of a GPU."""
        if device.type != "cuda":
            return cls("CPU by Triton's interpreter", "", "", package_version("triton"), "", kernels_digest())
        capability = torch.cuda.get_device_capability(device)
        return cls(
            torch.cuda.get_device_name(device),
            "{}.{}".format(*capability),
            driver_version(),
            package_version("triton"),
            ptxas_version(ptxas(capability)) or "unknown",
            kernels_digest(),
        )


def package_version(name: str) -> str:
    """Return the version of an installed distribution, `missing` where there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def interpreted() -> bool:
    """Tell whether Triton interprets its kernels on the CPU, by the same values of the variable as Triton."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


@functools.cache
def kernels_digest() -> str:
    """Return a digest of the source of the kernels and of what launches them."""
    digest = hashlib.sha256()
    for path in (*sorted((_ATTENTION / "kernels").glob("*.py")), _ATTENTION / "triton_attention.py"):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def driver_version() -> str:
    """Return the version of NVIDIA's driver, such as "580.65.06"; `unknown` where it cannot be read."""
    try:
        said = _DRIVER.read_text(encoding="utf-8", errors="replace")
    except OSError:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return "unknown"
    found = re.search(r"\b\d{3}(\.\d+)+\b", said)
    return found[0] if found else "unknown"
