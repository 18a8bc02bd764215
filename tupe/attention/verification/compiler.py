"""Choose the ptxas that assembles Triton's kernels.

ptxas 12.8, which Triton's wheels up to 3.7.1 bring for Hopper, is reported to overwrite registers that an asynchronous
`wgmma` has not read yet, without an error; CUDA 13.3 mends that (triton-lang/triton pull requests 11781 and 11854).
Triton 3.8 brings 12.9, Triton 3.9 13.4 under the name `ptxas-blackwell`, which it also runs for Hopper. The extra `gpu`
installs `nvidia-cuda-nvcc`, whose ptxas takes its place where it works with the driver.
"""

import functools
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path

import torch

#: The first CUDA whose ptxas is reported to be right for `wgmma` with a left operand in registers.
RIGHT = (13, 3)
VARIABLE = "TRITON_PTXAS_PATH"
_MENDING = f'pip install "tupe[gpu]", or set {VARIABLE} to the ptxas of CUDA {RIGHT[0]}.{RIGHT[1]} or later'


def ptxas(capability: tuple[int, int]) -> Path | None:
    """Return the ptxas that Triton will run for a GPU; `None` without Triton."""
    found = importlib.util.find_spec("triton")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "backends" / "nvidia" / "bin"
    name, variable = "ptxas", VARIABLE
    first = 9 if _triton_version() >= (3, 9) else 10
    if capability >= (first, 0) and (folder / "ptxas-blackwell").exists():
        name, variable = "ptxas-blackwell", "TRITON_PTXAS_BLACKWELL_PATH"
    own = Path(os.environ.get(variable, folder / name))
    return own if ptxas_version(own) else folder / name  # as Triton falls back


def _triton_version() -> tuple[int, int]:
    major, minor, *_ = version("triton").split(".")
    return int(major), int(minor)


@functools.cache
def ptxas_version(path: Path | None) -> str | None:
    """Return the version of a ptxas, such as "13.3.33"; `None` where it does not run."""
    try:
        said = subprocess.run([str(path), "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\bV(\d+(?:\.\d+)+)", said)
    return found[1] if found else None


def is_right(path: Path | None) -> bool:
    """Tell whether a ptxas is of CUDA 13.3 or later."""
    found = ptxas_version(path)
    return found is not None and tuple(map(int, found.split(".")[:2])) >= RIGHT


def wheel_ptxas() -> Path | None:
    """Return the ptxas of the installed `nvidia-cuda-nvcc`, if its version is right."""
    try:
        listed = files("nvidia-cuda-nvcc") or ()
    except PackageNotFoundError:
        return None
    found = [Path(file.locate()) for file in listed if file.name == "ptxas"]
    return next((path for path in found if is_right(path)), None)


def candidate(capability: tuple[int, int]) -> Path | None:
    """Return the ptxas to use in place of Triton's own; `None` to keep that one.

    Triton's own is kept on every GPU but Hopper, where it is recent enough, and where the user names one.
    """
    if capability[0] != 9 or os.environ.get(VARIABLE) or is_right(ptxas(capability)):
        return None
    return wheel_ptxas()


def use(path: Path) -> None:
    """Make Triton use a ptxas, in this process and in those that it starts."""
    os.environ[VARIABLE] = str(path)
    compiler = sys.modules.get("triton.backends.nvidia.compiler")
    # the version, which Triton caches, is part of the key under which it keeps compiled kernels
    clear = getattr(getattr(compiler, "get_ptxas_version", None), "cache_clear", None)
    if clear is not None:
        clear()


def warning(capability: tuple[int, int]) -> str | None:
    """Return a sentence if the ptxas in use is too old for Hopper, else `None`."""
    used = ptxas(capability)
    if capability[0] != 9 or is_right(used):
        return None
    return (
        f"ptxas {ptxas_version(used) or 'of unknown version'}, which compiles the kernels, is reported to miscompile "
        f"for Hopper without an error: {_MENDING}"
    )


def runs(path: Path, device: torch.device) -> bool:
    """Tell whether a tiny kernel compiled by a ptxas gives the right numbers on `device`, in another process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, VARIABLE: str(path), "TRITON_CACHE_DIR": folder}
        command = [sys.executable, str(Path(__file__).with_name("tiny.py")), str(device)]
        try:
            return subprocess.run(command, env=environment, capture_output=True, timeout=120).returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False
