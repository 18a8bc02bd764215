"""Whether code runs on plain tensors, whose values it may look at, or is recorded or transformed."""

import torch
from torch.autograd import forward_ad


def is_traced() -> bool:
    """Whether operations are recorded or transformed rather than only run.

    Then a value decides no branch, no result is kept for another call, and each operation is one of PyTorch's, which
    every tracer and every transform knows: `torch.compile`, `torch.export`, `torch.jit.trace`, `make_fx` and other
    dispatch modes, the transforms of `torch.func`, forward-mode derivatives, the capture of a CUDA graph.
    """
    return (
        torch.compiler.is_compiling()  # first: a compiler sees nothing of what follows
        or torch.jit.is_tracing()
        or is_transformed()
        or torch._C._len_torch_dispatch_stack() > 0
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())  # this fails without a driver
    )


def is_transformed() -> bool:
    """Whether `torch.func` or forward-mode derivatives are at work, which not every fused kernel knows."""
    return not torch.compiler.is_compiling() and (
        torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    )
