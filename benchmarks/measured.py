"""What benchmarks have in common: options of how to measure, and the machine and quartiles beside their figures."""

import argparse
import os
import statistics

import torch

from tupe.cores import processor


def device(text: str) -> str:
    """Type of a device that PyTorch has here: `cpu`, `cuda`, or `cuda:1`."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if text not in ("cpu", *(["cuda"] if gpus else []), *gpus):
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no device here: give cpu, or cuda where there is a GPU")
    return text


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option for the device."""
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", type=device, default=usual, help="default: cuda where there is one")


def parse(parser: argparse.ArgumentParser, *, rounds: int, warm_up: int, steps: int) -> argparse.Namespace:
    """Add the options of how to measure, with these defaults, and parse the command line; `dtype` is PyTorch's."""
    add = parser.add_argument
    add_device(parser)
    add("--dtype", choices=["float32", "bfloat16", "float16"], help="default: bfloat16 on a GPU")
    add("--rounds", type=int, default=rounds, help="that count (default: %(default)s)")
    add("--warm-up", type=int, default=warm_up, help="rounds before them (default: %(default)s)")
    add("--steps", type=int, default=steps, help="steps of each rival in a round (default: %(default)s)")
    add("--clock", choices=["wall", "process"], default="wall", help="process: processor time, for a busy CPU")
    args = parser.parse_args()
    args.dtype = getattr(torch, args.dtype or ("bfloat16" if args.device.startswith("cuda") else "float32"))
    return args


def spread(values: list[float]) -> list[float]:
    """First quartile, median, third quartile."""
    first, _, third = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return [first, statistics.median(values), third]


def machine(device: str) -> str:
    """Its GPU or CPU, how much of it is used, and PyTorch's version."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    return f"{name}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}, PyTorch {torch.__version__}"
