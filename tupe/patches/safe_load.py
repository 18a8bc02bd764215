"""Read checkpoint files without running code: a file can hold tensors and plain values, never calls.

PyTorch does not compare the checksums in a file, so it reads flipped bytes as weights. This module compares them first.
"""

import argparse
import ast
import itertools
import mmap
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.serialization import safe_globals

from tupe.systems import REMOVED
from tupe.util import UserError

_FOLDER = 0x10  # attribute of a folder, whose bytes PyTorch does not read: its tensor would be uninitialized memory
_TIED = 8  # how often a file may name a tensor on average; models tie an embedding, an output layer and a decoder's
_GROWS = "{} has {:,} bytes and would take far more memory. It is not loaded."
#: Types that fairseq writes into checkpoints besides tensors and plain values: the configuration of a model without a
#: dataclass, and numpy's types, from `--eval-bleu` or a best metric that scipy or scikit-learn returned.
FAIRSEQ_GLOBALS = [
    *(argparse.Namespace, np._core.multiarray.scalar, np._core.multiarray._reconstruct),
    *(np.ndarray, np.dtype, np.dtypes.Float64DType, np.dtypes.Int64DType),
]


def safe_load(path: str | os.PathLike, also: Sequence[Any] = ()) -> dict:
    """Read the dictionary in a checkpoint file onto the CPU, without running anything that the file contains.

    `also` names further classes that the file may contain, as for `torch.serialization.safe_globals`.

    Raises:
        UserError: the file is damaged, grows in memory, or has a setting that fairseq would evaluate.
        UnpicklingError: it holds a class or function that fairseq does not write. PyTorch's message names it.
    """
    path = os.fspath(path)
    _check_archive(path)
    with safe_globals([*FAIRSEQ_GLOBALS, *also]):
        state = torch.load(path, map_location="cpu", weights_only=True)
    _refuse_growth(state, path)
    _refuse_calls(state, path)
    if isinstance(state.get("cfg"), Mapping):
        refuse_removed(state["cfg"].get("model"), path)
    return state


def _check_archive(path: str) -> None:
    """Refuse archives that `torch.save` does not write, and those whose bytes have changed since it wrote them.

    Files of PyTorch before 1.6 are not zip archives and have no checksums.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data.find(b"\nbytearray\n") >= 0:  # PyTorch would allocate the length that the file states
            raise UserError(_GROWS.format(path, len(data)))
        if data[:4] != b"PK\3\4":
            return

    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        stored = all(
            member.compress_type == zipfile.ZIP_STORED and not (member.is_dir() or member.external_attr & _FOLDER)
            for member in members
        )
        apart = sum(member.file_size for member in members) <= os.path.getsize(path)
        has_checksums = any(member.CRC for member in members)
        if not (stored and apart) or (has_checksums and archive.testzip() is not None):
            raise UserError(f"{path} is damaged: it is not what torch.save wrote. Copy it again.")


def _values(*parts: Any) -> Iterator[Any]:
    """Yield the containers and values in parts of a checkpoint, once per reference."""
    left = [*parts]
    while left:
        part = left.pop()
        yield part
        part = vars(part) if isinstance(part, argparse.Namespace) else part
        if isinstance(part, Mapping):
            left += part.values()
        elif isinstance(part, (list, tuple)):
            left += part


def _refuse_growth(state: Mapping[str, Any], path: str) -> None:
    """Raise `UserError` if the objects that a file names would take far more memory than the file.

    A tensor with a stride of 0 has one element in the file, and a list of lists can name one list a million times.
    """
    size = os.path.getsize(path)
    values = [*itertools.islice(_values(state), size + 1)]
    tensors = [value for value in values if torch.is_tensor(value)]
    expanded = any(tensor.nbytes > tensor.untyped_storage().nbytes() for tensor in tensors)
    if len(values) > size or expanded or sum(tensor.nbytes for tensor in tensors) > _TIED * size:
        raise UserError(_GROWS.format(path, size))


def _refuse_calls(state: Mapping[str, Any], path: str) -> None:
    """Raise `UserError` for a setting with a call: fairseq evaluates some, such as `encoder_layers` of `fconv`."""
    cfg = state.get("cfg") or {}
    task = cfg.get("task") or {}
    task = {**(vars(task) if isinstance(task, argparse.Namespace) else task), "data": None}  # `wiki (copy)` is a path
    for value in _values(state.get("args"), cfg.get("model"), cfg.get("criterion"), task):
        if isinstance(value, str) and "(" in value and _calls(value):
            raise UserError(f"{path} has the setting {value!r:.60}, whose call fairseq could run. It is not loaded.")


def _calls(text: str) -> bool:
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # `eval` fails too
        return False


def refuse_removed(fields: object, path: str | os.PathLike) -> None:
    """Raise `UserError` if a model's `fields` in an older file use a term that was removed."""
    for field, unused in REMOVED.items() if isinstance(fields, Mapping) else ():
        if (value := fields.get(field, unused)) != unused:
            raise UserError(f"{path} has {field}={value!r:.40}, which this version no longer computes.")
