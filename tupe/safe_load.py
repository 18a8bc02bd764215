"""Read checkpoint files with `weights_only`: a file can hold tensors and plain values, never code.

PyTorch does not compare the checksums in a file, so it reads flipped bytes as weights. They are compared first.
"""

import argparse
import ast
import os
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.serialization import safe_globals

from tupe.systems import REMOVED
from tupe.util import UserError

_BEGIN = b"PK\3\4"  # how a file begins that PyTorch reads as a zip archive
_END = b"PK\5\6"  # begins the last record of a zip archive, 22 bytes without a comment
_FOLDER = 0x10  # attribute of a folder, of which PyTorch reads no bytes: its tensor would be what memory held before


def fairseq_globals() -> list:
    """List what fairseq writes into a checkpoint file beyond tensors and plain values.

    `argparse.Namespace` is the configuration of a model without a dataclass; the numpy types are a best metric that
    scipy or scikit-learn returned, and the statistics of `--eval-bleu`.
    """
    multiarray = np._core.multiarray
    numpy_types = [np.ndarray, np.dtype, np.dtypes.Float64DType, np.dtypes.Int64DType]
    return [argparse.Namespace, multiarray.scalar, multiarray._reconstruct, *numpy_types]


def safe_load(path: str | os.PathLike, also: Sequence[Any] = ()) -> dict:
    """Read the dictionary in a checkpoint file onto the CPU, without running anything that the file contains.

    It may contain the classes `also` too, as `torch.serialization.safe_globals` takes them.

    Raises:
        UserError: the file is damaged, or is not a dictionary that `torch.save` wrote.
        UnpicklingError: it holds a class or function that fairseq does not write. PyTorch's message names it.
    """
    path = os.fspath(path)
    _check_archive(path)
    with safe_globals([*fairseq_globals(), *also]):
        state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise UserError(f"{path} holds a {type(state).__name__}, not the dictionary of a checkpoint.")
    _drop_removed(state, path)
    return state


def _drop_removed(state: dict, path: str) -> None:
    """Delete the fields `REMOVED` from the configuration of a model; raise `UserError` for one that it used."""
    cfg = state.get("cfg")
    model = cfg.get("model") if isinstance(cfg, dict) else None
    for field, unused in REMOVED.items() if isinstance(model, dict) else ():
        value = model.pop(field, unused)
        if unused is not None and value != unused:
            raise UserError(f"{path} has {field}={value!r:.40}, which this version no longer computes.")


def refuse_calls(state: Mapping[str, Any], path: str | os.PathLike) -> None:
    """Raise `UserError` if a setting in a checkpoint is Python that calls something.

    fairseq evaluates the settings of some of its models as Python, `encoder_layers` of `fconv` among them.
    """
    parts = [state.get("args"), state.get("cfg")]
    while parts:
        part = parts.pop()
        part = vars(part) if isinstance(part, argparse.Namespace) else part
        if isinstance(part, Mapping):
            parts += part.values()
        elif isinstance(part, (list, tuple)):
            parts += part
        elif isinstance(part, str) and "(" in part and _calls(part):
            raise UserError(f"{path} has the setting {part!r:.60}, whose call fairseq could run. It is not loaded.")


def _calls(text: str) -> bool:
    try:
        return any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(text.strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # `eval` fails too
        return False


def _check_archive(path: str) -> None:
    """Refuse archives that `torch.save` does not write, and those whose bytes have changed since it wrote them.

    Files of PyTorch before 1.6 are not zip archives and have no checksums.
    """
    with open(path, "rb") as file:
        begins = file.read(4)
    if begins != _BEGIN and not zipfile.is_zipfile(path):  # some versions of Python deny archives that PyTorch reads
        if begins.strip(b"\0") and tarfile.is_tarfile(path):
            raise UserError(f"{path} is a tar archive, not a checkpoint.")
        return
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        archive.fp.seek(-22, os.SEEK_END)
        alone = min((member.header_offset for member in members), default=0) == 0
        if not (
            alone
            and archive.fp.read().startswith(_END)  # PyTorch writes no comment
            and not any(member.external_attr & _FOLDER or member.is_dir() for member in members)
            and all(member.compress_type == zipfile.ZIP_STORED for member in members)  # of any size when read
            and (not any(member.CRC for member in members) or archive.testzip() is None)  # some write no checksums
        ):
            raise UserError(f"{path} is damaged: it is not what torch.save wrote. Copy it again.")
