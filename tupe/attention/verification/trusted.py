"""Answer whether the kernels were seen to be right here. Reads the record of a device once; a call looks it up."""

import os

import torch

from tupe.attention.verification.record import Record, case_of, load

VARIABLE = "TUPE_CHECK_KERNELS"
UNCHECKED = f"the Triton kernels were not checked on this GPU (run `tupe doctor` once, or set {VARIABLE}=0)"

#: By device: what this process knows of its kernels.
_records: dict[torch.device, Record] = {}


def checks() -> bool:
    """Tell whether records count. With `TUPE_CHECK_KERNELS=0` the kernels are used wherever they run."""
    return os.environ.get(VARIABLE) != "0"


def distrust(device: torch.device, dtype: torch.dtype, kind: str, backend: str = "auto") -> str | None:
    """Return what speaks against the kernels, as half a sentence; `None` if they may be used.

    `auto` takes kernels that passed. Who asks for `triton` by name also gets those that nobody has checked.

    Args:
        device: of the queries.
        dtype: of the queries.
        kind: one of `KINDS`.
        backend: `auto` or `triton`.
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
    """Return the record of a device, which is read where this process does not have it yet."""
    if device not in _records:
        from tupe.attention.verification.ensure import machine_with_compiler

        _records[device] = load(machine_with_compiler(device))
    return _records[device]


def trust(device: torch.device, record: Record) -> None:
    """Let `record` decide for `device` in this process."""
    _records[device] = record


def forget() -> None:
    """Read the records again when they are next asked for."""
    _records.clear()
