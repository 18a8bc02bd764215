"""Learning rates that fall from the heads to the embeddings, layer by layer, as in ELECTRA's fine-tuning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from fairseq.optim import FairseqOptimizer
from fairseq.trainer import Trainer

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import chosen, ours

_LAYER = re.compile(r"\bsentence_encoder\.layers\.(\d+)\.")
_BELOW = re.compile(r"\bsentence_encoder\.(?!layers\.|layer_norm\.)")


def shares(names: Iterable[str], decay: float, official: bool = False) -> dict[str, float]:
    """Parameter -> its share of the learning rate: `decay^(L - l)` in layer `l` of `L`, from 0; heads have 1.

    Embeddings, and the position terms, which are one parameter for all layers, have `decay^(L + 1)`; the layer norm
    after the last layer has the last layer's.

    Args:
        names: of the model's parameters.
        decay: of a layer over the next.
        official: one power more everywhere below the heads, as ELECTRA's code has it, not its paper.
    """
    names = list(names)
    layer = {name: int(found[1]) for name in names if (found := _LAYER.search(name))}
    depth = 1 + max(layer.values(), default=-1)

    def power(name: str) -> int:
        if name in layer:
            return depth - layer[name] + official
        if _BELOW.search(name):
            return depth + 1 + official
        return 1 + official if "sentence_encoder." in name else 0

    return {name: decay ** power(name) for name in names}


def split_groups(optimizer: FairseqOptimizer, share_of: dict[str, float]) -> list[float]:
    """Makes a group of the optimizer's parameters for each share, the largest first; returns the shares.

    Args:
        optimizer: has one group, of the model's parameters or of their copies in 32 bits, in the order of `share_of`.

    Raises:
        UserError: for an optimizer that has something else.
    """
    groups = optimizer.param_groups
    if len(groups) != 1 or len(groups[0]["params"]) != len(share_of):
        raise UserError(
            "layer_decay needs an optimizer with the parameters of the model one by one: set --fp16-no-flatten-grads "
            "(common.fp16_no_flatten_grads=true), or leave out what else joins or splits them (ZeRO, FSDP, composite)"
        )
    options = {name: value for name, value in groups[0].items() if name != "params"}
    of_share: dict[float, list] = {}
    for p, share in zip(groups[0]["params"], share_of.values()):
        of_share.setdefault(share, []).append(p)
    ordered = sorted(of_share, reverse=True)
    groups[:] = [{"params": of_share[share], **options} for share in ordered]
    return ordered


def set_lr(optimizer: FairseqOptimizer, lr: float, group_shares: Sequence[float]) -> None:
    """Sets the learning rate `lr`, of which every group has its share; without shares all have it whole."""
    optimizer.set_lr(lr)
    for group, share in zip(optimizer.param_groups, group_shares):
        group["lr"] = lr * share


@mends(
    Trainer, "_build_optimizer", "self",
    only_for=lambda self: ours(chosen("lr_scheduler", self.cfg.lr_scheduler)),
)  # fmt: skip
def tell_names(original):
    """Tells a schedule that wants it the names of the parameters; fairseq gives it the optimizer alone.

    Goes when fairseq gives its optimizers named parameters.
    """

    def _build_optimizer(self):
        original(self)
        if hasattr(self.lr_scheduler, "follow_names"):
            named = chain(self.model.named_parameters(), self.criterion.named_parameters())
            self.lr_scheduler.follow_names([name for name, p in named if p.requires_grad])
            self.lr_scheduler.step_update(0)

    return _build_optimizer
