"""Whether code may look at the numbers of a tensor: not while it is compiled, exported, traced or transformed."""

from __future__ import annotations

import torch


def is_eager() -> bool:
    """False under `torch.compile`, `torch.export` and `torch.jit.trace`, and within the transforms of `torch.func`."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._functorch.peek_interpreter_stack() is not None
    )
