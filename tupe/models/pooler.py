"""The pooler of an imported BERT, `pooler.dense` of a checkpoint: the first layer of a classification head."""

from collections.abc import Collection

from torch import Tensor

_PARTS = ("weight", "bias")


def take_pooler(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Take the pooler out of a checkpoint's `state`, empty where it has none."""
    return {
        part: state.pop(f"{prefix}pooler.dense.{part}") for part in _PARTS if f"{prefix}pooler.dense.{part}" in state
    }


def has_head(state: dict[str, Tensor], prefix: str, head: str) -> bool:
    """Tell whether a checkpoint has a classification head."""
    return any(name.startswith(f"{prefix}classification_heads.{head}.") for name in state)


def begin_heads(state: dict[str, Tensor], prefix: str, pooler: dict[str, Tensor], heads: Collection[str]) -> None:
    """Replace the first layer of some `heads` by the pooler; a layer of another shape stays as it is."""
    for head in heads:
        for part, tensor in pooler.items():
            name = f"{prefix}classification_heads.{head}.dense.{part}"
            if name in state and state[name].shape == tensor.shape:
                state[name] = tensor
