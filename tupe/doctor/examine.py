"""Run the examinations in order and print a line for each."""

import functools
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

import torch

from tupe.attention import BACKENDS, biased_attention
from tupe.attention.kernels.check import errors
from tupe.doctor.training import step

PACKAGES = ("torch", "triton", "fairseq-fixed", "hydra-core", "omegaconf", "numpy", "transformers", "sentencepiece")


def examine(say: Callable[[str], None] = print) -> bool:
    """Print a line for each examination. Return whether none failed."""
    well = True
    for name, examination in examinations():
        try:
            say(f"ok       {name}: {examination()}")
        except Exception as error:  # anything may be wrong with this machine, and the next examination follows
            well = False
            say(f"failed   {name}: {' '.join(f'{type(error).__name__}: {error}'.split())[:300]}")
    return well


def examinations() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield names and functions that return what they saw, or raise."""
    yield "versions", versions
    yield "fairseq", import_fairseq
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    backends = [name for name in BACKENDS if name != "reference" and (gpu or name not in ("triton", "flex"))]
    for dtype in (torch.float32, torch.float16, torch.bfloat16) if gpu else (torch.float32,):
        for backend in backends:
            yield f"attention, {backend}, {dtype}", functools.partial(compare, backend, device, dtype)
    for precision in ("--fp16", "--bf16", "--amp") if gpu else ("--cpu",):
        yield f"training step, {precision}", functools.partial(step, precision)


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} missing")
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ", ".join([*found, *gpus])


def import_fairseq() -> str:
    import fairseq_cli.train  # before the plugin, as in fairseq's commands

    import tupe.plugin  # noqa: F401

    return fairseq_cli.train.__file__


def compare(backend: str, device: torch.device, dtype: torch.dtype) -> str:
    """Compare a backend with `reference` in float64, output and gradients."""

    def attend(query, key, value, bias, padding, scale, dropout_p):
        options = {"key_padding_mask": padding, "scale": scale, "dropout_p": dropout_p, "backend": backend}
        return biased_attention(query, key, value, bias, **options)

    found = errors(attend, device, dtype)
    worst = max(found, key=lambda name: found[name] if found[name] == found[name] else float("inf"))  # NaN is worst
    if not found[worst] <= 1:
        raise ArithmeticError(f"the {worst} has {found[worst]:.2f} times the allowed error")
    return f"at most {found[worst]:.2f} of the allowed error"
