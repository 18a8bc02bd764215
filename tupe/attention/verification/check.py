"""Compare the kernels with float64, in separate processes, so that a wrong kernel breaks only its process.

`python -m tupe.attention.verification.check JSON` is such a process; it prints a line of JSON for each case.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tupe.attention.verification.bounds import error_over_bound
from tupe.attention.verification.cases import Case, with_gradients
from tupe.attention.verification.machine import Machine, interpreted
from tupe.attention.verification.record import Record, case_of
from tupe.cores import available_cores

_PACKAGE = Path(__file__).resolve().parents[3]  # where the process finds `tupe`
_STARTED = "started"
_SECONDS = 600  # of a process: compiling some twenty kernels takes a minute


@dataclass(frozen=True)
class Outcome:
    """Outcome of a check.

    record: the cases whose numbers were compared.
    broken: cases that ended in an error, each with its reason. They are not saved, since the cause may disappear.
    unchecked: cases whose process could not start.
    figures: for each case the largest error over its bound, and the seconds.
    """

    record: Record
    broken: dict[str, str] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Effort:
    """Extent of a check: lengths, the length of the case in whole numbers, dropout rates, repeats of a backward."""

    lengths: tuple[int, ...] = (1, 63, 200, 512)
    whole: int = 512
    dropouts: tuple[float, ...] = (0.1,)
    repeats: int = 2
    width: int = 64


#: Efforts before a training, and for Triton's slow interpreter; `tupe doctor` has its own.
BRIEF = Effort()
INTERPRETED = Effort(lengths=(20,), whole=16, width=16)


def check_kernels(
    device: torch.device, machine: Machine, dtypes: list[torch.dtype], kinds: list[str], effort: Effort | None = None
) -> Outcome:
    """Check the kernels on `device` for all pairs of a type and a kind of bias.

    A kernel that fails raises nothing here, and cannot change memory of this process on the GPU.
    """
    effort = effort or (BRIEF if device.type == "cuda" else INTERPRETED)
    pairs = [(str(dtype).removeprefix("torch."), kind) for dtype in dtypes for kind in kinds]
    # Compiling takes most of the time on a GPU, starting a process most of it in the interpreter.
    shares = [[pair] for pair in pairs] if device.type == "cuda" else [pairs]
    with ThreadPoolExecutor(min(len(shares), available_cores())) as pool:
        answers = list(pool.map(lambda share: _ask(device, share, effort), shares))
    passed, failed, broken, unchecked, figures = [], {}, {}, {}, {}
    for share, (lines, ended) in zip(shares, answers):
        said = {line["case"]: line for line in lines if "case" in line}
        for name, kind in share:
            case = f"{name} {kind}"
            line = said.get(case)
            if line is None:
                reasons = broken if _STARTED in (line.get("event") for line in lines) else unchecked
                reasons[case] = f"the process that checks them {ended}"
                continue
            figures[case] = {"error": line["error"], "seconds": line["seconds"]}
            if line["broken"]:
                broken[case] = line["broken"]
            elif line["wrong"]:
                failed[case] = line["wrong"]
            else:
                passed.append(case)
    return Outcome(Record(machine, tuple(passed), failed), broken, unchecked, figures)


def _ask(device: torch.device, share: list[tuple[str, str]], effort: Effort) -> tuple[list[dict], str]:
    """Run the checking process; return the lines that it prints, and how it ended as a half sentence."""
    asked = {"device": str(device), "pairs": share, "effort": vars(effort)}
    path = os.pathsep.join(filter(None, (str(_PACKAGE), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tupe.attention.verification.check", json.dumps(asked)]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        return _lines(out), f"did not end within {_SECONDS} s"
    except OSError as error:
        return [], f"did not start ({error.strerror})"
    last = (done.stderr.strip().splitlines() or ["no message"])[-1][:300]
    return _lines(done.stdout), f"ended with status {done.returncode}: {last}"


def _lines(text: str) -> list[dict]:
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # cut off where the process died
            continue
    return [line for line in found if isinstance(line, dict)]


# ------------------------------------------------------------------------------------------------- in the process


def cases(dtype: torch.dtype, kind: str, effort: Effort) -> Iterator[Case]:
    """Yield the cases for a type and a kind of bias, the strictest first."""
    forms = [("dense", True), ("structured", True)] if kind == "packed" else [(kind, False)]
    for bias, packed in forms:
        for dropout in effort.dropouts:
            whole = 0.5 if dropout else 0.0  # a factor of 2 is exact
            yield Case(bias, packed, dtype, effort.whole, whole, effort.width, whole=True)
            for length in effort.lengths:
                yield Case(bias, packed, dtype, length, dropout, effort.width)


#: Results without rounding error for whole numbers. In float32 the operands of a product are split in three.
_EXACT = {torch.float32: ("output",), torch.float16: ("output", "value"), torch.bfloat16: ("output", "value")}


def compare(case: Case, device: torch.device, repeats: int) -> tuple[float, str | None]:
    """Return the largest error over its bound, and what is wrong as a half sentence, or `None`."""
    leaves, d_out = case.leaves(device), case.d_out(device)
    exact = with_gradients(lambda x: case.exact(x, seed=1), leaves, d_out)
    typed = {name: leaf.to(case.dtype) for name, leaf in leaves.items()}
    got = with_gradients(lambda x: case.kernels(x, seed=1), typed, d_out.to(case.dtype))
    if case.whole:
        for name in _EXACT[case.dtype]:
            # Dividing by a power of two may be off by a bit in float32, which rounding to 16 bits takes away.
            inexact = 1e-6 if case.dtype == torch.float32 else 0
            if not torch.allclose(got[name].double(), exact[name].to(case.dtype).double(), rtol=inexact, atol=0):
                return float("inf"), f"{_named(name)} of whole numbers is not exact ({case})"
        return 0.0, None  # the other gradients are sums of large numbers that cancel
    errors = {name: error_over_bound(got[name], exact[name], case.dtype, terms=2 * case.length) for name in got}
    worst = max(errors, key=lambda name: errors[name] if errors[name] == errors[name] else float("inf"))
    if not errors[worst] <= 1:
        said = f"is {errors[worst]:.3g} times the allowed error off" if errors[worst] > 1 else "is not finite"
        return errors[worst], f"{_named(worst)} {said} ({case})"
    for _ in range(repeats - 1):
        again = with_gradients(lambda x: case.kernels(x, seed=1), typed, d_out.to(case.dtype))
        other = [name for name in got if not torch.equal(got[name], again[name])]
        if other:
            return errors[worst], f"{_named(other[0])} has other bits when it is computed again ({case})"
    return errors[worst], None


def _named(name: str) -> str:
    return "the output" if name == "output" else f"the gradient of {name}"


def main(asked: dict) -> None:
    device, effort = torch.device(asked["device"]), Effort(**asked["effort"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    elif not interpreted():
        sys.exit("without a GPU the kernels need TRITON_INTERPRET=1")
    torch.zeros(1, device=device)
    print(json.dumps({"event": _STARTED}), flush=True)
    for name, kind in asked["pairs"]:
        dtype, start, worst, wrong, broken = getattr(torch, name), time.monotonic(), 0.0, None, None
        try:
            each = list(cases(dtype, kind, effort))
            for case in each:
                error, wrong = compare(case, device, effort.repeats if case is each[-1] else 2)
                worst = max(worst, error)
                if wrong:
                    break
        except Exception as error:  # of the compiler or the GPU: the next case may do without what failed
            broken = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        line = {"case": case_of(dtype, kind), "wrong": wrong, "broken": broken}
        print(json.dumps({**line, "error": worst, "seconds": time.monotonic() - start}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
