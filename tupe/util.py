"""Errors for users, atomic files, locks, and the plugin's folders."""

import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any

#: Environment variable that names a package for `--user-dir`, so that every command registers its terms.
USER_DIR = "TUPE_USER_DIR"


class UserError(ValueError):
    """Wrong input that the user can correct. `tupe` prints the message without a traceback."""


def labelled(arguments: Iterable[str]) -> list[tuple[str, Path]]:
    """Split each `[LABEL=]PATH`; the label is empty if there is none. A path that exists may contain `=`."""
    parts = (["", text] if "=" not in text or Path(text).exists() else text.split("=", 1) for text in arguments)
    return [(label, Path(path)) for label, path in parts]


def check_labels(labels: Sequence[str]) -> None:
    """Raise a `UserError` if a label occurs twice."""
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"The label '{label}' occurs twice. Use different labels: LABEL=PATH.")


@contextlib.contextmanager
def atomic(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` if the block ends without an exception.

    The block makes a file or a folder there.

    Raises:
        UserError: `path` exists and `overwrite` is false.
    """
    if not overwrite:
        check_new(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        if path.is_dir():
            shutil.rmtree(path)
        part.replace(path)
    finally:
        _remove(part)


def check_new(path: Path) -> None:
    """Raise a `UserError` if `path` exists; call this before a long computation whose result goes there."""
    if os.path.lexists(path):
        raise UserError(f"{path} exists. Delete it or choose another name.")


def remove_parts(folder: Path) -> None:
    """Remove temporary files of killed processes from `folder`, to which no other process may be writing."""
    for path in folder.glob(".*.part"):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON; an earlier file is replaced atomically."""
    with atomic(path, overwrite=True) as part:
        part.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read the value in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def sha256(path: Path) -> str:
    """Compute the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def lock(path: Path, wait: bool = False) -> Iterator[IO]:
    """Hold a lock until the block or the process ends.

    Yields:
        The locked file. A child that inherits it (`pass_fds`) holds the lock too.

    Raises:
        UserError: another process holds the lock and `wait` is false.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise UserError(f"Another process is working in {path.parent}. Wait until it ends.") from None
        yield file


@contextlib.contextmanager
def run_folder(folder: Path, settings: dict[str, Any], wait: bool = False) -> Iterator[IO]:
    """Lock a folder of results. A folder whose `settings.json` differs has results of other inputs, and is an error.

    Yields the locked file, as `lock` does.

    Raises:
        UserError: the folder was started with other settings, or another process holds it and `wait` is false.
    """
    settings = json.loads(json.dumps(settings))  # tuples become lists, as in the file
    kept = folder / "settings.json"
    with lock(folder / ".lock", wait) as file:
        found = read_json(kept) if kept.exists() else settings
        for name in dict.fromkeys((*settings, *found)):
            if found.get(name) != settings.get(name):
                raise UserError(
                    f"{folder} was started with {name} = {found.get(name)}, not {settings.get(name)}. "
                    "Choose another folder, or delete this one."
                )
        remove_parts(folder)
        if not kept.exists():
            write_json(kept, settings)
        yield file


def available_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_cpu_env(processes: int) -> None:
    """Set environment variables for this number of processes on the CPU, except those that are already set."""
    usual = {
        "OMP_NUM_THREADS": max(1, available_cores() // processes),
        "GOMP_SPINCOUNT": 100_000,  # threads that wait for each other spin briefly
        "MALLOC_MMAP_THRESHOLD_": 1 << 30,  # glibc keeps the memory of tensors: docs/measurements/performance.md
        "MALLOC_TRIM_THRESHOLD_": 1 << 30,
    }
    for name, value in usual.items():
        os.environ.setdefault(name, str(value))


def visible_gpus() -> list[str]:
    """List the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [gpu for gpu in named.split(",") if gpu not in ("", "-1")]
    import torch

    return list(map(str, range(torch.cuda.device_count())))


def user_dir() -> Path:
    """Return the folder for fairseq's `--user-dir`: `TUPE_USER_DIR` if it is set, else this package."""
    return Path(os.environ.get(USER_DIR) or Path(__file__).parent).resolve()


def import_user_package() -> None:
    """Import the package of `TUPE_USER_DIR`, if it is set, so that its terms are registered."""
    if os.environ.get(USER_DIR):
        from fairseq.utils import import_user_module

        import_user_module(Namespace(user_dir=str(user_dir())))


def config_dir(kind: str = "") -> Path:
    """Return the folder of the shipped configurations, which is in the package, or in the clone.

    Args:
        kind: Subfolder: `pretraining`, `finetuning`, `translation` or `study`.
    """
    package = Path(__file__).parent.resolve()
    folder = package / "configs"
    return (folder if folder.is_dir() else package.parent / "configs") / kind


def import_transformers() -> ModuleType:
    """Return the module `transformers`. A torchaudio that does not load is hidden, since Transformers would import it.

    fairseq brings torchaudio, which needs the libraries of the PyTorch that it was built for.
    """
    try:
        importlib.import_module("torchaudio")
    except (ImportError, OSError):
        sys.modules["torchaudio"] = None  # pyright: ignore[reportArgumentType]
    return importlib.import_module("transformers")
