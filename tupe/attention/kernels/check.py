"""The self-check of the Triton kernels: compare an attention and its gradients with `reference`."""

import logging
import os
from collections.abc import Callable

import torch
from torch import Tensor

from tupe.attention.reference import reference
from tupe.position.terms import Terms
from tupe.util import UserError

logger = logging.getLogger(__name__)
_checked: set[tuple[torch.device, torch.dtype]] = set()

#: Bound by type on |got - exact| / (|exact| + sqrt(N)) of an output or gradient; `N` is its number of elements, or the
#: output's if larger. The root allows for values that cancel to 0. The interpreter truncates to bfloat16; GPUs round.
BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 3e-3}


def self_check(device: torch.device, dtype: torch.dtype) -> None:
    """Check the Triton kernels on a GPU, once per process and type.

    Raises:
        UserError: the output or a gradient is wrong.
    """
    from tupe.attention.triton_attention import triton_attention

    if (device, dtype) in _checked:
        return
    if torch.cuda.get_device_capability(device)[0] == 9 and "TRITON_PTXAS_PATH" not in os.environ:
        logger.info(
            "The ptxas of Triton before 3.9 is reported to miscompile kernels for Hopper without an error. Use PyTorch "
            "2.15, or set TRITON_PTXAS_PATH to the ptxas of CUDA 13.3 or later (docs/dev/kernels.md)."
        )
    for name, error in errors(triton_attention, device, dtype).items():
        if not error <= 1:
            raise UserError(
                f"attention_backend=triton is wrong on this GPU: the {name} has {error:.1f} times the allowed error in "
                f"{dtype}. Choose another attention_backend, or set TRITON_PTXAS_PATH to a newer ptxas."
            )
    _checked.add((device, dtype))


#: As `torch.compiler.assume_constant_result`, without importing the compiler: compiled code checks while it is traced.
self_check.__dict__["_dynamo_marked_constant"] = True


def errors(
    attend: Callable[..., Tensor], device: torch.device, dtype: torch.dtype, length: int = 192, width: int = 64
) -> dict[str, float]:
    """Return the errors of the output and each gradient, as multiples of their bounds, for each kind of bias.

    `attend` is a function of query, key, value, bias, key_padding_mask, scale and dropout_p; `length` is that
    of the longest of three sequences, one of them empty (pytorch/pytorch#196678), and `width` the width of the heads.
    """
    generator, found = torch.Generator().manual_seed(0), {}
    place = torch.arange(length, device=device)
    padding = place >= torch.tensor([[length], [length // 3 + 1], [0]], device=device)
    segments = place >= torch.tensor([[length // 2], [length // 5], [0]], device=device)
    shape, factor = (3, 2, length, width), (2, length, 16)
    kinds = {
        "dense": [(2, length, length)],
        "structured": [factor, factor, (2, 2 * length - 1), (2, 2), (2, 2, 2)],
        "factored": [factor, factor],
    }
    for kind, shapes in kinds.items():
        leaves = [torch.randn(size, generator=generator).to(device, dtype) for size in (*[shape] * 3, *shapes)]
        d_out = (length**0.5 * torch.randn(shape, generator=generator)).to(device, dtype)  # gradients of about 1
        results = []
        for function, precision in ((attend, dtype), (reference, torch.float64)):
            with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
                inputs = [leaf.to(precision, copy=True).requires_grad_() for leaf in leaves]
                bias = Terms(length, 0, *inputs[3:], *([segments] if kind == "structured" else []))
                if kind == "dense":
                    bias = inputs[3]
                elif function is reference:
                    bias = bias.bias
                out = function(*inputs[:3], bias, padding, (2 * width) ** -0.5, 0.0)
                results.append([out, *torch.autograd.grad(out, inputs, d_out.to(precision))])
        names = ("output", *(f"gradient of {name}" for name in ("query", "key", "value")))
        names += tuple(f"gradient of bias {i}" for i in range(len(shapes)))
        for name, got, exact in zip(names, *results):
            allowed = BOUNDS[dtype] * (exact.norm() + max(exact.numel(), d_out.numel()) ** 0.5)
            found[f"{kind} bias, {name}"] = ((got.double() - exact).norm() / allowed).item()
    return found
