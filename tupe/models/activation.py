"""The activation functions of layers and heads."""

from collections.abc import Callable

import torch.nn.functional as F
from fairseq import utils
from torch import Tensor


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """Return the activation that fairseq calls `name`.

    `gelu` is PyTorch's, the exact form, which computes in float32 without fairseq's float32 copy of the input.
    """
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)
