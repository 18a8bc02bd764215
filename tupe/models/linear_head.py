"""ELECTRA's classification head, one linear layer, where RoBERTa's has two and an activation between them."""

import logging

from fairseq.models.roberta import RobertaModel
from torch import Tensor, nn

_logger = logging.getLogger(__name__)


class LinearHead(nn.Module):
    """`dropout(x_[CLS]) W + b`, as ELECTRA's fine-tuning; `W` begins as Xavier has it."""

    def __init__(self, embed_dim: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, features: Tensor, **unused: object) -> Tensor:
        """Compute the scores `(B, num_classes)` of `features` `(B, T, d)`."""
        return self.out_proj(self.dropout(features[:, 0]))


def upgrade(model: RobertaModel, state: dict[str, Tensor], name: str) -> None:
    """Call `RobertaModel.upgrade_state_dict_named`, which knows only heads of two layers, for heads of both kinds.

    A head of the model that the checkpoint's `state` lacks, or has in another shape, stays as it is.
    """
    prefix = f"{name}." * bool(name) + "classification_heads."
    own, aside = model.classification_heads, {}
    for key in [key for key in state if key.startswith(prefix)]:
        head, _, part = key[len(prefix) :].partition(".")
        if f"{prefix}{head}.dense.weight" not in state or (head in own and isinstance(own[head], LinearHead)):
            aside.setdefault(head, {})[part] = state[key]
    for head, tensors in aside.items():
        for part in tensors:
            del state[f"{prefix}{head}.{part}"]
    RobertaModel.upgrade_state_dict_named(model, state, name)
    for head, tensors in aside.items():
        if head not in own and model.args.load_checkpoint_heads and model.args.linear_heads:
            model.register_classification_head(head, num_classes=len(tensors["out_proj.bias"]))
        wanted = own[head].state_dict() if head in own else {}
        if {part: t.shape for part, t in wanted.items()} == {part: t.shape for part, t in tensors.items()}:
            state.update({f"{prefix}{head}.{part}": tensor for part, tensor in tensors.items()})
        else:
            _logger.warning("the checkpoint's classification head %s differs from the model's: it is left out", head)
