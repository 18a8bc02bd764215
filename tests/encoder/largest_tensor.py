"""How much memory a computation needs at once, without a device that counts it."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Remembers the elements of the largest memory that any operation takes for floating-point numbers."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out
