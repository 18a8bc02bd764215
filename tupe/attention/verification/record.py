"""Keep what was seen of the kernels on a machine, as a small JSON file in a cache folder."""

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

import torch

from tupe.attention.verification.machine import Machine
from tupe.errors import UserError
from tupe.files.typed import read, write

T = TypeVar("T")

#: Kinds of bias, each with the kernels that are compiled for it; `packed` is both for sequences side by side.
KINDS = ("dense", "structured", "packed")


@dataclass(frozen=True)
class Record:
    """The outcome of a check.

    passed: cases such as "bfloat16 dense" whose numbers were right.
    failed: the other cases that were tried, each with what was wrong, as half a sentence.
    """

    version: ClassVar[int] = 1
    machine: Machine
    passed: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)

    def joined(self, other: "Record") -> "Record":
        """Return this record with the cases of a later one in place of its own."""
        known = {*other.passed, *other.failed}
        passed = {case for case in self.passed if case not in known} | {*other.passed}
        failed = {case: wrong for case, wrong in self.failed.items() if case not in known} | other.failed
        return Record(self.machine, tuple(sorted(passed)), failed)


@dataclass(frozen=True)
class Compiler:
    """Tell whether another ptxas than Triton's own was seen to work with a GPU and its driver."""

    version: ClassVar[int] = 1
    works: bool


def case_of(dtype: torch.dtype, kind: str) -> str:
    return f"{str(dtype).removeprefix('torch.')} {kind}"


def cache_folder() -> Path:
    """Return `TUPE_CACHE_DIR`, or the folder `tupe` of the user's caches."""
    if os.environ.get("TUPE_CACHE_DIR"):
        return Path(os.environ["TUPE_CACHE_DIR"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tupe"


def record_path(machine: Machine) -> Path:
    """Return the file of a machine's record."""
    return _path("kernels", dataclasses.asdict(machine))


def load(machine: Machine) -> Record:
    """Return the record of a machine, an empty one where there is none that can be read."""
    return _read(record_path(machine), Record) or Record(machine)


def save(record: Record) -> None:
    """Add a record to what is known of its machine. Raise `UserError` or `OSError` where that cannot be written."""
    write(record_path(record.machine), load(record.machine).joined(record))


def load_compiler(machine: Machine, ptxas: str) -> bool | None:
    """Return whether the ptxas of that version works on a machine; `None` where it was not tried."""
    found = _read(_compiler_path(machine, ptxas), Compiler)
    return None if found is None else found.works


def save_compiler(machine: Machine, ptxas: str, works: bool) -> None:
    """Remember whether the ptxas of that version works on a machine."""
    write(_compiler_path(machine, ptxas), Compiler(works))


def _compiler_path(machine: Machine, ptxas: str) -> Path:
    parts = {name: getattr(machine, name) for name in ("gpu", "capability", "driver", "triton")}
    return _path("ptxas", {**parts, "ptxas": ptxas})


def _path(kind: str, parts: dict[str, str]) -> Path:
    name = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / f"{kind}-{name}.json"


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return read(path, kind, made_by="tupe doctor") if path.is_file() else None
    except (UserError, OSError):  # a damaged cache is an empty one: the check will write it again
        return None
