"""Classification and question-answering heads, and loading them from a checkpoint."""

import logging
import re
from collections.abc import Iterable

import torch
from fairseq.models.roberta import RobertaModel
from torch import Tensor, nn

#: Prefixes of the names of the task heads' parameters.
TASK_HEADS = ("classification_heads.", "span_head.")
#: Prefix of the names of the language-model head's parameters.
LM_HEAD = "encoder.lm_head."
_logger = logging.getLogger(__name__)


def has_lm_head(names: Iterable[str]) -> bool:
    """Return whether the parameters of a checkpoint, by their `names`, include a language-model head.

    Most sentence encoders and ELECTRA's discriminators have none, and are loaded without one.
    """
    return any(name.startswith(LM_HEAD) for name in names)


class LinearHead(nn.Module):
    """`dropout(x_[CLS]) W + b`, as in ELECTRA; RoBERTa's head has two layers. `W` has Xavier's initialization."""

    def __init__(self, embed_dim: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, features: Tensor, **unused: object) -> Tensor:
        """Compute the scores `(B, num_classes)` of `features` `(B, T, d)`."""
        return self.out_proj(self.dropout(features[:, 0]))


class SpanHead(nn.Linear):
    """`(w_begin . x, w_end . x)` for the features `x` of a position (Devlin et al., 2019, section 4.2)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2)
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the float32 scores `(B, T)` of beginnings and of ends, from `features` `(B, T, d)`."""
        begin, end = super().forward(features).float().unbind(-1)
        return begin, end


def take_heads(model: RobertaModel, state: dict[str, Tensor], prefix: str) -> None:
    """Complete a checkpoint's `state`, whose names start with `prefix`, with the heads of `model`.

    A head of the checkpoint is used if the model has a head of the same name, kind and shape, or is given one by
    `load_checkpoint_heads`. The model's other heads stay as they are, with one exception: the pooler of an imported
    BERT becomes the first layer of the classification heads that the checkpoint does not have.
    """
    saved: dict[str, dict[str, Tensor]] = {}
    for key in [key for key in state if key.startswith(tuple(prefix + head for head in (*TASK_HEADS, "pooler.")))]:
        path, part = re.fullmatch(r"(classification_heads\.[^.]+|[^.]+)\.(.+)", key.removeprefix(prefix)).groups()
        saved.setdefault(path, {})[part] = state.pop(key)
    pooler = saved.pop("pooler", {})
    for path, tensors in saved.items() if model.args.load_checkpoint_heads else ():
        head, two_layers = path.removeprefix("classification_heads."), "dense.weight" in tensors
        if head not in (path, *model.classification_heads) and model.args.linear_heads != two_layers:
            inner_dim = len(tensors["dense.weight"]) if two_layers else None
            model.register_classification_head(head, len(tensors["out_proj.weight"]), inner_dim)
    heads = {f"classification_heads.{head}": module for head, module in model.classification_heads.items()}
    heads |= {"span_head": model.span_head} if hasattr(model, "span_head") else {}
    for path, module in heads.items():
        own, theirs = module.state_dict(), saved.pop(path, None)
        if theirs is None:
            number = sum(map(torch.numel, own.values()))
            _logger.info("%s is not in the checkpoint: its %d parameters are new, or from BERT's pooler", path, number)
            own |= {part: t for part, t in pooler.items() if part in own and own[part].shape == t.shape}
        elif shapes(own) == shapes(theirs):
            own = theirs
        else:
            _logger.warning("%s differs in shape between checkpoint and model: the checkpoint's is ignored", path)
        state.update({f"{prefix}{path}.{part}": tensor for part, tensor in own.items()})
    for path in saved:
        _logger.warning("%s is not in the model: the checkpoint's is ignored", path)


def shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
