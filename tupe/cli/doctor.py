"""Examine a machine: versions, imports, the attention backends and a training step. See `docs/getting-started.md`."""

import functools
import math
import platform
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from tupe.attention import BACKENDS, biased_attention
from tupe.attention.kernels.check import errors
from tupe.util import UserError

PACKAGES = ("torch", "triton", "fairseq-fixed", "hydra-core", "omegaconf", "numpy", "transformers", "sentencepiece")

OPTIONS = (
    "--task masked_lm --criterion tupe_masked_lm --arch tupe_tiny --optimizer adam --lr 0.001 --lr-scheduler fixed "
    "--batch-size 4 --tokens-per-sample 64 --max-positions 64 --distributed-world-size 1"
)


def doctor() -> None:
    """Examine this machine: versions, imports, the attention backends, a training step.

    Raises:
        UserError: something does not work.
    """
    failed = 0
    for name, examination in examinations():
        try:
            print(f"ok       {name}: {examination()}")
        except Exception as error:  # anything may be wrong with this machine, and the next examination follows
            failed += 1
            print(f"failed   {name}: {' '.join(f'{type(error).__name__}: {error}'.split())[:300]}")
    if failed:
        raise UserError(f"{failed} of these do not work on this machine.")


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


def step(precision: str) -> str:
    """Do four updates with an option of fairseq-train, such as `--bf16`. Return the loss and the gradient's norm.

    Raises:
        ArithmeticError: the loss or its gradient is not finite.
    """
    import fairseq_cli.train  # before the plugin, as in fairseq's commands
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.logging import metrics

    import tupe.plugin  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dict.txt").write_text("".join(f"word{i} 1\n" for i in range(40)), encoding="utf-8")
        arguments = [folder, *OPTIONS.split(), precision]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
        task = tasks.setup_task(cfg.task)
        trainer = fairseq_cli.train.Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
        trainer.lr_step_begin_epoch(1)
        for _ in range(4):  # a loss scaler may skip the first ones
            with metrics.aggregate(new_root=True) as meters:
                trainer.train_step([sample(task.source_dictionary)])
    loss, gradient = (float(meters.get_smoothed_values().get(name, math.nan)) for name in ("loss", "gnorm"))
    if not math.isfinite(loss + gradient):
        raise ArithmeticError(f"loss {loss}, gradient {gradient}")
    return f"loss {loss:.2f}, gradient {gradient:.2f}"


def sample(dictionary: Any) -> dict[str, Any]:
    """Return a batch of four sequences with padding and masked tokens."""
    tokens = torch.arange(256).reshape(4, 64) % 40 + dictionary.nspecial
    tokens[0, 40:] = dictionary.pad()
    chosen = torch.zeros_like(tokens, dtype=torch.bool)
    chosen[:, 1:40:3] = True
    source = tokens.masked_fill(chosen, dictionary.index("<mask>"))
    return {
        "id": torch.arange(4),
        "nsentences": 4,
        "ntokens": int(tokens.ne(dictionary.pad()).sum()),
        "net_input": {"src_tokens": source, "src_lengths": tokens.ne(dictionary.pad()).sum(1)},
        "target": tokens.masked_fill(~chosen, dictionary.pad()),
    }
