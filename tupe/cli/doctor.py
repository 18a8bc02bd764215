"""Check a machine: versions, the attention backends and a short training. See `docs/getting-started.md`."""

import functools
import json
import math
import platform
import re
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import distributions

import torch

from tupe.attention import BACKENDS, biased_attention
from tupe.attention.kernels.check import errors
from tupe.util import UserError, user_dir

PACKAGES = ("torch", "triton", "fairseq-fixed", "hydra-core", "omegaconf", "numpy", "transformers", "sentencepiece")
#: Four updates on fairseq's dummy data.
TRAINING = (
    "fairseq-train --task dummy_masked_lm --dict-size 100 --dataset-size 16 --tokens-per-sample 64 --batch-size 4 "
    "--criterion masked_lm --arch tupe_tiny --max-positions 64 --optimizer adam --lr 0.001 --lr-scheduler fixed "
    "--max-epoch 1 --no-save --disable-validation --log-format json --distributed-world-size 1 --user-dir"
)


def doctor() -> None:
    """Check this machine: versions, the attention backends and a short training."""
    failed = 0
    for name, examination in examinations():
        try:
            print(f"ok       {name}: {examination()}", flush=True)
        except Exception as error:  # report any error, and run the other checks all the same
            failed += 1
            print(f"failed   {name}: {' '.join(f'{type(error).__name__}: {error}'.split())[-300:]}", flush=True)
    if failed:
        raise UserError(f"{failed} of the checks above failed. See docs/getting-started.md#install.")


def examinations() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each check, and a function that returns its result or raises an exception."""
    yield "versions", versions
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    backends = [name for name in BACKENDS if name != "reference" and (gpu or name not in ("triton", "flex"))]
    for dtype in (torch.float32, torch.float16, torch.bfloat16) if gpu else (torch.float32,):
        for backend in backends:
            yield f"attention, {backend}, {dtype}", functools.partial(compare, backend, device, dtype)
    for precision in ("--fp16", "--bf16", "--amp") if gpu else ("--cpu",):
        yield f"training, {precision}", functools.partial(train, precision)


def versions() -> str:
    found = sorted(f"{one.name} {one.version}" for one in distributions() if one.name in PACKAGES)
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ", ".join([f"Python {platform.python_version()}", *found, *gpus])


def compare(backend: str, device: torch.device, dtype: torch.dtype) -> str:
    """Compare a backend with `reference` in float64, output and gradients."""

    def attend(query, key, value, bias, padding, scale, dropout_p):
        options = {"key_padding_mask": padding, "scale": scale, "dropout_p": dropout_p, "backend": backend}
        return biased_attention(query, key, value, bias, **options)

    found = errors(attend, device, dtype)
    worst = max(found, key=lambda name: math.inf if math.isnan(found[name]) else found[name])
    if not found[worst] <= 1:
        raise ArithmeticError(f"the {worst} has {found[worst]:.2f} times the allowed error")
    return f"at most {found[worst]:.2f} of the allowed error"


def train(precision: str) -> str:
    """Run `fairseq-train` with an option such as `--bf16`, and return the loss."""
    command = [*TRAINING.split(), str(user_dir()), precision]
    done = subprocess.run(command, capture_output=True, text=True)
    output = done.stdout + done.stderr
    records = [json.loads(record) for record in re.findall(r'\{.*"train_loss".*\}', output)]
    if done.returncode or not math.isfinite(loss := float(records[-1]["train_loss"])):
        raise RuntimeError(output)
    return f"loss {loss:.2f} in {records[-1]['train_num_updates']} updates"
