"""The activation functions of layers and heads."""

from collections.abc import Callable

import torch.nn.functional as F
from fairseq import utils
from torch import Tensor


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """The activation that fairseq knows by `name`.

    PyTorch's gelu is the exact form, in float32 inside; fairseq's makes a float32 copy of its input.
    """
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)
