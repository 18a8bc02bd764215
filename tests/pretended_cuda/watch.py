"""Watches a step on a pretended GPU for waits, and for tensors of the host that would fail on a real one."""

import sys
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROOT = str(Path(__file__).parents[2])
#: Operators whose result, or its shape, is read from the numbers of a tensor.
READS = (
    *("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2", "unique_dim", "bincount"),
    *("repeat_interleave.Tensor", "unique_consecutive"),
)


def place() -> str:
    """`file:function` of the innermost call of the plugin or of fairseq."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        for package, folder in (("tupe", f"{ROOT}/tupe/"), ("fairseq", "/fairseq/")):
            if folder in name:
                function = frame.f_code.co_qualname.partition(".<locals>")[0]
                return f"{package}/{name.rpartition(folder)[2]}:{function}"
        frame = frame.f_back
    return "tests"


class Watch(TorchDispatchMode):
    """The outermost mode: counts waits and meetings of devices in `found`, and answers what no fake tensor knows.

    Args:
        positions: how many a `nonzero` finds.
    """

    def __init__(self, positions: int) -> None:
        super().__init__()
        self.positions = positions
        self.before = ""
        self.found: Counter[str] = Counter()

    def say(self, what: str) -> None:
        self.found[f"{what} in {place()}"] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_gpu = [tensor for tensor in tensors if tensor.device.type == "cuda"]
        on_host = [tensor for tensor in tensors if tensor.device.type == "cpu"]
        if on_gpu and (name in READS or f"{name}.{func._overloadname}" in READS or indexed_by_mask(name, args)):
            self.say(f"wait: {name}")
        if name == "copy_" and on_gpu and on_host:
            self.copied(args[1], args[0].device, (len(args) > 2 and args[2]) or kwargs.get("non_blocking", False))
        elif name == "_to_copy" and tensors and (device := kwargs.get("device")) is not None:
            if torch.device(device).type != tensors[0].device.type:
                self.copied(tensors[0], torch.device(device), kwargs.get("non_blocking", False))
        elif on_gpu and any(tensor.ndim for tensor in on_host):
            self.say(f"a tensor of the host: {name}")
        before, self.before = self.before, name
        if name == "_local_scalar_dense" and isinstance(args[0], FakeTensor):
            if args[0].dtype == torch.bool:
                return before not in ("eq", "ne")  # gradients are finite, and the norm is neither inf nor nan
            return 0.0 if args[0].is_floating_point() else 1
        if name == "nonzero" and isinstance(args[0], FakeTensor):
            return torch.zeros(self.positions, args[0].ndim, dtype=torch.int64, device=args[0].device)
        return func(*args, **kwargs)

    def copied(self, source: Tensor, target: torch.device, non_blocking: bool) -> None:
        """The host waits for a copy between it and the GPU, unless to the GPU and told not to."""
        if source.device.type == "cuda":
            self.say("wait: copy to the host")
        elif not non_blocking:
            self.say("wait: copy to the GPU")


def indexed_by_mask(name: str, args: tuple) -> bool:
    masks = (leaf for leaf in tree_leaves(args[1:2]) if isinstance(leaf, Tensor))
    return name in ("index", "index_put", "index_put_") and any(mask.dtype == torch.bool for mask in masks)
