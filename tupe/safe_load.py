"""Read checkpoint files with `weights_only`: a file can hold tensors and plain values, never code.

PyTorch reads a file whatever its bytes have become. So the checksums in the file are compared first (`safe_load`), and
weights that no training leaves in a usable model are refused (`check_finite`).
"""

import argparse
import glob
import os
import pickle
import re
import tarfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.serialization import safe_globals

from tupe.errors import UserError

_REFUSED = re.compile(r"GLOBAL ([A-Za-z_][\w.]*)")  # in PyTorch's message
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


def refuse_no_paths(**places: object) -> None:
    """Raise `UserError` unless each argument, given by its name, is a text or a path, and not empty."""
    for name, place in places.items():
        if not isinstance(place, (str, os.PathLike)) or not os.fspath(place):
            raise UserError(f"{name} is {place!r:.60}, but must be a path")


def safe_load(path: str | os.PathLike, also: Sequence[Any] = ()) -> dict:
    """Read the dictionary in a checkpoint file onto the CPU, without running anything that the file contains.

    It may contain the classes `also` too, as `torch.serialization.safe_globals` takes them.

    Raises:
        UserError: the file is missing, is not a checkpoint, is cut short, has another checksum than was written, or
            holds a class or function that fairseq does not write (the message names it).
    """
    refuse_no_paths(checkpoint=path)
    if not isinstance(also, (list, tuple)):
        raise UserError(f"also is {also!r:.60}, but must be a list of classes")
    path = os.fspath(path)
    if os.path.isdir(path):
        such = max(glob.glob(os.path.join(glob.escape(path), "checkpoint*.pt")), default=None)  # _last, or _best
        raise UserError(
            f"{path} is a folder: give a checkpoint, {f'such as {such}' if such else 'of which it has none'}"
        )
    if not os.path.isfile(path):
        raise UserError(f"there is no checkpoint {os.path.abspath(path)}: give the path of one")
    try:
        _check_archive(path)
        with safe_globals([*fairseq_globals(), *also]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of what it is about to refuse
            state = torch.load(path, map_location="cpu", weights_only=True)
    except (MemoryError, UserError):
        raise
    except PermissionError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): give one that you may read") from error
    except pickle.UnpicklingError as error:
        refused = _REFUSED.search(str(error))
        if refused is None:
            raise _unreadable(path) from error
        raise UserError(
            f"checkpoint {path} was not loaded because it contains `{refused[1]}`, which fairseq does not write and "
            "which could run code: use a checkpoint from a source you trust that holds tensors and plain values only"
        ) from error
    except Exception as error:  # a damaged file fails in many ways, depending on where it is damaged
        raise _unreadable(path) from error
    if not isinstance(state, dict):
        raise UserError(f"{path} holds a {type(state).__name__}, not the dictionary that a checkpoint is")
    return state


def _unreadable(path: str) -> UserError:
    return UserError(
        f"{path} cannot be read as a checkpoint ({os.path.getsize(path):,} bytes): it is cut short, damaged or another "
        "kind of file, so copy it again (in a clone by `git lfs pull`) or give an earlier one"
    )


def _check_archive(path: str) -> None:
    """Refuse archives that `torch.save` does not write, and those whose bytes have changed since it wrote them.

    Files of PyTorch before 1.6 are no zip archives and have no checksums.
    """
    with open(path, "rb") as file:
        begins = file.read(4)
    if begins != _BEGIN and not zipfile.is_zipfile(path):  # some versions of Python deny archives that PyTorch reads
        if begins.strip(b"\0") and tarfile.is_tarfile(path):  # zeros alone, which a crash of a machine leaves, are too
            raise _program(path)
        return
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.filename.endswith("/constants.pkl") for member in members):
            raise _program(path)
        archive.fp.seek(-22, os.SEEK_END)
        alone = min((member.header_offset for member in members), default=0) == 0
        if not alone or not archive.fp.read().startswith(_END):  # PyTorch writes no comment
            raise UserError(
                f"{path} is damaged: something precedes its beginning or follows its end, so copy it again or give an "
                "earlier one"
            )
        if any(member.external_attr & _FOLDER or member.is_dir() for member in members):
            raise _unreadable(path)
        if not any(member.CRC for member in members):  # torch.serialization.set_crc32_options(False)
            return
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):  # of any size when read
            raise _unreadable(path)
        damaged = archive.testzip()
        if damaged is not None:
            raise UserError(
                f"{path} is damaged: {damaged!r:.60} in it is not what was written (its checksum differs), so copy it "
                "again or give an earlier one"
            )


def _program(path: str) -> UserError:
    return UserError(
        f"{path} is a TorchScript or tar archive, not a checkpoint: save the model's state_dict with torch.save"
    )


def check_finite(weights: Mapping[str, Any], path: str | os.PathLike) -> None:
    """Raise `UserError` for a weight that is no tensor, complex, NaN or infinite; the message names the first."""
    for name, tensor in weights.items():
        if not isinstance(tensor, Tensor) or tensor.is_complex():
            kind = "complex numbers" if isinstance(tensor, Tensor) else f"a {type(tensor).__name__}"
            raise UserError(
                f"{path} holds {kind}, first in {name!s:.100}, and weights are tensors of real numbers: it is damaged "
                "or of another program, so give another checkpoint"
            )
        seen = tensor.is_floating_point() and tensor.device.type == "cpu" and tensor.numel() and _is_stored(tensor)
        if seen and not all(map(torch.isfinite, torch.aminmax(tensor))):
            raise UserError(
                f"{path} holds weights that are NaN or infinite, first {name!s:.100}: its training had diverged or the "
                "file is damaged, so give an earlier checkpoint"
            )


def check_stored(weights: Mapping[str, Any], path: str | os.PathLike) -> None:
    """Raise `UserError` for a tensor that claims more numbers than its file has, as strides of 0 can."""
    for name, tensor in weights.items():
        if isinstance(tensor, Tensor) and not _is_stored(tensor):
            raise UserError(
                f"{path} claims more numbers than it has, first in {name!s:.100}: it is damaged, so get it again"
            )


def _is_stored(tensor: Tensor) -> bool:
    """Tell whether each number has its own place in memory: a file can claim a tensor of any size by strides of 0."""
    return (
        tensor.layout is torch.strided and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )
