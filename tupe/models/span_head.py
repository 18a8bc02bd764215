"""The head of extractive question answering: for every position, how well an answer begins and ends there."""

import logging

import torch
from torch import Tensor, nn

_NAME = "span_head"
_logger = logging.getLogger(__name__)


class SpanHead(nn.Linear):
    """`(w_begin . x, w_end . x)` for the features `x` of a position (Devlin et al., 2019, section 4.2)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2)
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Features `(B, T, d)` to float32 scores `(B, T)` of beginnings, and of ends."""
        begin, end = super().forward(features).float().unbind(-1)
        return begin, end


def adapt(model: nn.Module, state: dict[str, Tensor], prefix: str) -> None:
    """Gives a checkpoint's `state` the head that `model` has and it lacks, or takes away that which the model lacks."""
    own = {} if getattr(model, _NAME, None) is None else getattr(model, _NAME).state_dict()
    there = [name for name in state if name.startswith(f"{prefix}{_NAME}.")]
    if own and not there:
        _logger.info("the checkpoint has no %s: its %d parameters are new", _NAME, sum(map(torch.numel, own.values())))
        state.update({f"{prefix}{_NAME}.{name}": value for name, value in own.items()})
    elif there and not own:
        _logger.warning("the model has no %s: the checkpoint's is left out", _NAME)
        for name in there:
            del state[name]
