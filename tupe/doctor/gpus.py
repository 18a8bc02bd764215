"""Examine the GPUs, their driver and compilers, without running code on them."""

import platform

import torch
import torch.cuda.nccl

from tupe.attention.triton_support import device_obstacle
from tupe.attention.verification import compiler
from tupe.attention.verification.machine import driver_version, package_version
from tupe.doctor.finding import Findings, failed, note, ok, warning

#: Capabilities for which the kernels were compiled and inspected (benchmarks/compile_kernels.py).
KNOWN = {(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0)}
_RIGHT_TRITON = (3, 7, 1)  # reported: before it, products of transposed accumulators are wrong on Hopper


def examine(devices: list[torch.device]) -> Findings:
    """Yield the versions that decide the machine code, and a finding for every GPU."""
    if not devices:
        yield note("GPUs", "PyTorch sees none: the kernels are not examined, and training is on the CPU")
        return
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.distributed.is_nccl_available() else "none"
    facts = {
        "driver": driver_version(),
        "cuda": torch.version.cuda,
        "triton": package_version("triton"),
        "nccl": nccl,
        "cudnn": torch.backends.cudnn.version(),
        "machine": platform.machine(),
    }
    text = f"driver {facts['driver']}, CUDA {facts['cuda']} in PyTorch, Triton {facts['triton']}, NCCL {nccl}"
    yield ok("GPU software", text, **facts)
    for device in devices:
        yield gpu(device)
    for capability in sorted({torch.cuda.get_device_capability(device) for device in devices}):
        yield ptxas(capability)
    hopper = any(torch.cuda.get_device_capability(device)[0] == 9 for device in devices)
    if hopper and _numbers(facts["triton"]) < _RIGHT_TRITON:
        yield warning(
            "Triton",
            f"{facts['triton']} is older than 3.7.1, before which it is reported to miscompile for Hopper: "
            "pip install a newer PyTorch",
        )


def gpu(device: torch.device):
    """Describe one GPU, and whether the kernels run on it at all."""
    properties, capability = torch.cuda.get_device_properties(device), torch.cuda.get_device_capability(device)
    facts = {
        "gpu": properties.name,
        "capability": "{}.{}".format(*capability),
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "shared_memory_bytes": properties.shared_memory_per_block_optin,
        "multi_instance": "MIG" in properties.name,
    }
    text = (
        f"{properties.name}, capability {facts['capability']}, {properties.total_memory / 2**30:.0f} GiB, "
        f"{properties.multi_processor_count} multiprocessors, "
        f"{properties.shared_memory_per_block_optin >> 10} KiB of shared memory a block"
    )
    missing = device_obstacle(device)
    if missing is not None:
        return note(str(device), f"{text}; {missing}: attention is PyTorch's", **facts)
    if capability not in KNOWN:
        return warning(str(device), f"{text}: untested, the kernels were never compiled for it", **facts)
    return ok(str(device), text, **facts)


def ptxas(capability: tuple[int, int]):
    """Name the ptxas that Triton uses for a capability, with its known faults."""
    path = compiler.ptxas(capability)
    name = "ptxas for {}.{}".format(*capability)
    if path is None:
        return failed(name, "Triton is not installed: pip install triton")
    facts = {"path": str(path), "version": compiler.ptxas_version(path)}
    old = compiler.warning(capability)
    return warning(name, old, **facts) if old else ok(name, f"{facts['version']}, {path}", **facts)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".") if part.isdigit())
