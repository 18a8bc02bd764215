"""Tell whether the kernels passed their check on this machine. The record of a device is read only once."""

import os

import torch

from tupe.attention.verification.record import Record, case_of, load

VARIABLE = "TUPE_CHECK_KERNELS"
UNCHECKED = f"the Triton kernels were not checked on this GPU (run `tupe doctor` once, or set {VARIABLE}=0)"

#: By device: what this process knows of its kernels.
_records: dict[torch.device, Record] = {}


def checks() -> bool:
    """Tell whether the check decides. With `TUPE_CHECK_KERNELS=0` the kernels are used wherever they run."""
    return os.environ.get(VARIABLE) != "0"


def distrust(device: torch.device, dtype: torch.dtype, kind: str, backend: str = "auto") -> str | None:
    """Return why the kernels may not be used, as a half sentence; `None` if they may.

    The backend `auto` takes kernels of a kind (`KINDS`) that passed their check. `triton` also takes those that were
    never checked.
    """
    if not checks():
        return None
    record, case = record_of(device), case_of(dtype, kind)
    if case in record.failed:
        return f"the Triton kernels failed their check here ({record.failed[case]}): `tupe doctor` makes a report"
    return None if backend == "triton" or case in record.passed else UNCHECKED


#: What `torch.compiler.assume_constant_result` sets, so that compiled code asks once, while it is compiled. The
#: decorator itself would import the compiler, and Triton with it, for everybody.
distrust.__dict__["_dynamo_marked_constant"] = True


def record_of(device: torch.device) -> Record:
    """Return the record of a device, read from the cache folder on the first call."""
    if device not in _records:
        from tupe.attention.verification.ensure import machine_with_compiler

        _records[device] = load(machine_with_compiler(device))
    return _records[device]


def trust(device: torch.device, record: Record) -> None:
    """Let `record` decide for `device` in this process."""
    _records[device] = record
