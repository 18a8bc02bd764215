"""Checkpoints are read with `weights_only`: a file can hold tensors and plain values, never code."""

from __future__ import annotations

import argparse
import os
import pickle
import re
import tarfile
import zipfile
from typing import Union

import numpy as np
import torch
from torch.serialization import safe_globals

from tupe.errors import UserError

_REFUSED = re.compile(r"GLOBAL ([A-Za-z_][\w.]*)")  # in PyTorch's message


def fairseq_globals() -> list:
    """What fairseq writes into a checkpoint file beyond tensors and plain values.

    `argparse.Namespace` is the configuration of a model without a dataclass; the numpy types are a best metric that
    scipy or scikit-learn returned, and the statistics of `--eval-bleu`.
    """
    multiarray = (getattr(np, "_core", None) or np.core).multiarray
    names = [argparse.Namespace, multiarray.scalar, multiarray._reconstruct, np.ndarray, np.dtype]
    if hasattr(np, "dtypes"):  # numpy >= 1.25
        names += [np.dtypes.Float64DType, np.dtypes.Int64DType]
    return names


def safe_load(path: Union[str, os.PathLike]) -> dict:
    """Reads a checkpoint onto the CPU without running anything that the file contains.

    Args:
        path: a file written by `torch.save`.

    Returns:
        The dictionary in the file.

    Raises:
        UserError: the file is missing, is not a checkpoint, is cut short, or holds a class or function that fairseq
            does not write (the message names it).
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        raise UserError(f"{path} is a folder: give a checkpoint, such as {os.path.join(path, 'checkpoint_last.pt')}")
    if not os.path.isfile(path):
        raise UserError(f"there is no checkpoint {os.path.abspath(path)}: give the path of one")
    try:
        if _is_program(path):
            raise UserError(
                f"{path} is a TorchScript or tar archive, not a checkpoint: save the model's state_dict with torch.save"
            )
        with safe_globals(fairseq_globals()):
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
        "kind of file, so copy it again or give an earlier one"
    )


def _is_program(path: str) -> bool:
    """Formats for which PyTorch before 2.6 ignores `weights_only` (CVE-2025-32434)."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    return tarfile.is_tarfile(path)
