"""Time attention with a learnt bias by each implementation, and say which one `auto` takes."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.benchmark import Timer

from tupe.attention import biased_attention
from tupe.attention.biased import choose_backend, triton
from tupe.doctor.finding import Findings, ok, warning

#: (batch, heads, length, width) on a GPU, and for Triton's interpreter.
ON_GPU = ((32, 12, 128, 64), (32, 12, 512, 64), (4, 12, 2048, 64))
ON_CPU = ((1, 1, 16, 16),)


def examine(device: torch.device) -> Findings:
    """Yield the time of a forward and backward pass for each length and each implementation."""
    on_gpu = device.type == "cuda"
    dtype = torch.bfloat16 if on_gpu else torch.float32
    for shape in ON_GPU if on_gpu else ON_CPU:
        batch, heads, length, _ = shape
        query, key, value, d_out = (torch.randn(shape, device=device, dtype=dtype) for _ in range(4))
        bias = torch.randn(heads, length, length, device=device, dtype=dtype)
        leaves = [x.requires_grad_() for x in (query, key, value, bias)]
        times, reasons = {}, {}
        for name, attend in rivals(on_gpu).items():
            try:
                with torch.cuda.device_of(query):
                    times[name] = milliseconds(attend, leaves, d_out)
            except Exception as error:  # a rival may lack a kernel or memory; the others are still timed
                reasons[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
        chosen = choose_backend("auto", query, value, bias, padded=False).__name__
        said = ", ".join(f"{name} {ms:.2f} ms" for name, ms in sorted(times.items(), key=lambda item: item[1]))
        said += "".join(f", {name} failed ({reason})" for name, reason in reasons.items())
        text = f"{said}; auto takes {chosen}"
        facts = {"shape": shape, "dtype": str(dtype), "milliseconds": times, "failed": reasons, "auto": chosen}
        best = min(times, key=times.get)
        slow = on_gpu and chosen == "triton" and times.get("kernels", 0) > 1.1 * times[best]
        finding = warning if slow else ok
        advice = f", and {best} is faster: --attention-backend, please report this with --json" if slow else ""
        yield finding(f"speed, {batch} x {length} tokens", text + advice, **facts)


def rivals(on_gpu: bool) -> dict[str, Callable[..., Tensor]]:
    """Return `attend(query, key, value, bias)` by name."""

    def by(backend: str) -> Callable[..., Tensor]:
        return lambda q, k, v, b: biased_attention(q, k, v, b, scale=(2 * q.shape[-1]) ** -0.5, backend=backend)

    def kernels(q: Tensor, k: Tensor, v: Tensor, b: Tensor) -> Tensor:  # also where their check has failed
        return triton(q, k, v, b, None, (2 * q.shape[-1]) ** -0.5, 0.0)

    found = {"kernels": kernels, "SDPA": by("sdpa"), "reference": by("reference")}
    if on_gpu:
        found["FlexAttention"] = flex_attention()
    return found


def flex_attention() -> Callable[..., Tensor]:
    """Return PyTorch's FlexAttention with the bias captured by its `score_mod`, compiled."""
    from torch.nn.attention.flex_attention import flex_attention as flex

    compiled = torch.compile(flex, dynamic=False)

    def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return compiled(
            q, k, v, score_mod=lambda score, b, h, i, j: score + bias[h, i, j], scale=(2 * q.shape[-1]) ** -0.5
        )

    return attend


def milliseconds(attend: Callable[..., Tensor], leaves: list[Tensor], d_out: Tensor) -> float:
    """Return the median time of a forward and backward pass."""
    once = {"once": lambda: torch.autograd.grad(attend(*leaves), leaves, d_out)}
    return 1000 * Timer("once()", globals=once, num_threads=torch.get_num_threads()).blocked_autorange().median
