"""Check the kernels before a training begins, once for a kind of GPU, and let all its processes decide alike."""

import contextlib
import logging
import os

import torch

from tupe.attention.triton_support import device_obstacle
from tupe.attention.verification import compiler
from tupe.attention.verification.machine import Machine
from tupe.attention.verification.record import KINDS, Record, case_of, load, load_compiler, save, save_compiler
from tupe.attention.verification.trusted import checks, trust
from tupe.errors import UserError

logger = logging.getLogger(__name__)


def machine_with_compiler(device: torch.device, *, tries: bool = False) -> Machine:
    """Describe `device`, after giving Triton the newer ptxas where that is known to work.

    Args:
        device: a GPU, or the CPU for Triton's interpreter.
        tries: run a tiny kernel to find out where it is not known. Nothing runs without it.
    """
    machine = Machine.of(device)
    if device.type != "cuda":
        return machine
    newer = compiler.candidate(torch.cuda.get_device_capability(device))
    if newer is None:
        return machine
    version = compiler.ptxas_version(newer) or ""
    works = load_compiler(machine, version)
    if works is None and tries:
        works = compiler.runs(newer, device)
        with contextlib.suppress(UserError, OSError):  # a cache that cannot be written is asked again next time
            save_compiler(machine, version, works)
    if works:
        compiler.use(newer)
        machine = Machine.of(device)
    return machine


def ensure_checked(device: torch.device, dtype: torch.dtype) -> None:
    """Check the kernels for queries of `dtype` on `device` where no record tells, and trust what passed.

    Call it in every process of a training, before its first step: the first process of each machine does the check, and
    one exchange gives all processes the same answer. Without `torch.distributed` the process is alone.
    """
    if not checks() or device_obstacle(device) is not None:
        return
    record = _checked(device, dtype) if _first_of_machine(device) else None
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not together:
        trust(device, record or load(machine_with_compiler(device)))
        return
    machine = record.machine if record is not None else machine_with_compiler(device)
    said: list[tuple[Machine, Record | None]] = [(machine, None)] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(said, (machine, record))
    trust(device, _agreed(machine, said))


def _agreed(own: Machine, said: list[tuple[Machine, Record | None]]) -> Record:
    """Return the cases that passed on every kind of GPU of a training, and those that failed on any."""
    records = [record for _, record in said if record is not None]
    unchecked = {machine for machine, _ in said} - {record.machine for record in records}
    passed = set.intersection(*(set(record.passed) for record in records)) if records and not unchecked else set()
    failed = {case: wrong for record in records for case, wrong in record.failed.items()}
    return Record(own, tuple(sorted(passed - failed.keys())), failed)


def _first_of_machine(device: torch.device) -> bool:
    """Tell whether this is the process of its machine that checks."""
    return int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or device.index or 0) == 0


def _checked(device: torch.device, dtype: torch.dtype) -> Record:
    """Return the record of `device` with all kinds of bias for `dtype`, checking what it lacks. Raises nothing."""
    from tupe.attention.verification.check import check_kernels

    machine = machine_with_compiler(device, tries=True)
    record = load(machine)
    lacking = [kind for kind in KINDS if case_of(dtype, kind) not in (*record.passed, *record.failed)]
    if lacking:
        logger.info(f"checking the attention kernels on {machine.gpu}, {dtype}: once for this GPU, some seconds")
        outcome = check_kernels(device, machine, [dtype], lacking)
        record = record.joined(outcome.record)
        try:
            save(record)
        except (UserError, OSError) as error:
            logger.warning(f"the kernels will be checked again the next time: {error}")
        record = record.joined(Record(machine, failed=outcome.broken | outcome.unchecked))
    if device.type == "cuda" and (old := compiler.warning(torch.cuda.get_device_capability(device))):
        logger.warning(old)
    for case, wrong in record.failed.items():
        logger.warning(f"the kernels are not used for {case}: {wrong}; `tupe doctor` makes a report")
    return record
