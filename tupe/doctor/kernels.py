"""Compare the attention kernels with float64, and write the record by which `auto` uses them or not."""

import torch

from tupe.attention.triton_support import DTYPES, device_obstacle
from tupe.attention.verification.check import INTERPRETED, Effort, check_kernels
from tupe.attention.verification.ensure import machine_with_compiler
from tupe.attention.verification.record import KINDS, save
from tupe.attention.verification.trusted import trust
from tupe.doctor.finding import Findings, failed, note, ok, warning
from tupe.errors import UserError

NORMAL = Effort(dropouts=(0.0, 0.1), repeats=200)
FULL = Effort(lengths=(1, 63, 200, 512, 1000, 2049), dropouts=(0.0, 0.1), repeats=1000)


def examine(devices: list[torch.device], full: bool) -> Findings:
    """Yield a finding for each type and kind of bias, on the last GPU of each kind.

    On the CPU, Triton interprets the kernels.
    """
    able = [device for device in devices if device.type == "cpu" or device_obstacle(device) is None]
    kinds = {machine_with_compiler(device, tries=True): device for device in able}
    for machine, device in kinds.items():
        if device.type == "cuda":
            dtypes, effort = list(DTYPES), FULL if full else NORMAL
        else:
            dtypes, effort = [torch.float32], INTERPRETED
        outcome = check_kernels(device, machine, dtypes, list(KINDS), effort)
        try:
            save(outcome.record)
        except (UserError, OSError) as error:
            yield warning("kernels", f"their record cannot be kept, so that `auto` will not use them: {error}")
        trust(device, outcome.record)
        for case, wrong in outcome.record.failed.items():
            said = f"wrong on {machine.gpu}: {wrong}; `auto` takes PyTorch's attention, please report it with --json"
            yield failed(f"kernels, {case}", said, machine=vars(machine), **outcome.figures[case])
        for case, reason in outcome.broken.items():
            yield failed(f"kernels, {case}", f"they do not run on {machine.gpu}: {reason}", machine=vars(machine))
        for case, reason in outcome.unchecked.items():
            yield failed(f"kernels, {case}", f"they could not be checked: {reason}", machine=vars(machine))
        for case in outcome.record.passed:
            figures = outcome.figures[case]
            text = (
                f"right, at most {figures['error']:.2f} of the allowed error, and {effort.repeats} times the same bits"
            )
            yield ok(f"kernels, {case}", f"{text} ({figures['seconds']:.0f} s)", machine=vars(machine), **figures)
    if devices and not kinds:
        yield note("kernels", f"not examined: {device_obstacle(devices[0])}")
