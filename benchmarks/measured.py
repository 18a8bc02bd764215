"""What every benchmark says of its figures: the machine, and quartiles."""

import os
import statistics

import torch

from tupe.cores import processor


def spread(values: list[float]) -> list[float]:
    """First quartile, median, third quartile."""
    first, _, third = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return [first, statistics.median(values), third]


def machine(device: str) -> str:
    """Its GPU or CPU, how much of it is used, and PyTorch's version."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    return f"{name}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}, PyTorch {torch.__version__}"
