"""Heads that read every position: for answers, where one begins and ends; for words, their classes."""

import logging

import torch
from torch import Tensor, nn

_NAMES = ("span_head", "token_head")
_logger = logging.getLogger(__name__)


class SpanHead(nn.Linear):
    """`(w_begin . x, w_end . x)` for the features `x` of a position (Devlin et al., 2019, section 4.2)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2)
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the float32 scores `(B, T)` of beginnings and of ends, of `features` `(B, T, d)`."""
        begin, end = super().forward(features).float().unbind(-1)
        return begin, end


class TokenHead(nn.Linear):
    """`dropout(x) W + b` for the features `x` of a position (Devlin et al., 2019, section 5.3)."""

    def __init__(self, width: int, num_classes: int, dropout: float) -> None:
        super().__init__(width, num_classes)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Compute the float32 scores `(B, T, num_classes)` of `features` `(B, T, d)`."""
        return super().forward(self.dropout(features)).float()


def adapt(model: nn.Module, state: dict[str, Tensor], prefix: str) -> None:
    """Give a checkpoint's `state` the heads of `model` that it lacks, and remove those that the model lacks.

    A head with another number of classes counts as another head.
    """
    for head in _NAMES:
        own = {} if getattr(model, head, None) is None else getattr(model, head).state_dict()
        own = {f"{prefix}{head}.{name}": value for name, value in own.items()}
        there = {name: value.shape for name, value in state.items() if name.startswith(f"{prefix}{head}.")}
        if there and there != {name: value.shape for name, value in own.items()}:
            _logger.warning("the model has %s %s: the checkpoint's is left out", "another" if own else "no", head)
            for name in there:
                del state[name]
            there = {}
        if own and not there:
            _logger.info(
                "the checkpoint has no %s: its %d parameters are new", head, sum(map(torch.numel, own.values()))
            )
            state.update(own)
