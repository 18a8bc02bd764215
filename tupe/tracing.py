"""Tell whether code runs on plain tensors, whose values it may look at, or is recorded or transformed."""

import torch
from torch.autograd import forward_ad


def is_traced() -> bool:
    """Tell whether operations are recorded or transformed rather than only run.

    Then code must not branch on values, must not cache results, and must use operations of PyTorch that every tracer
    and transform supports: `torch.compile`, `torch.export`, `torch.jit.trace`, `make_fx` and other
    dispatch modes, the transforms of `torch.func`, forward-mode derivatives, the capture of a CUDA graph.
    """
    return (
        torch.compiler.is_compiling()  # first, so that a compiler does not trace the other tests
        or torch.jit.is_tracing()
        or is_transformed()
        or torch._C._len_torch_dispatch_stack() > 0
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())  # this fails without a driver
    )


def is_transformed() -> bool:
    """Tell whether `torch.func` or forward-mode derivatives are active, which not every fused kernel supports."""
    return not torch.compiler.is_compiling() and (
        torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    )
