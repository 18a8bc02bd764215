"""Learning rates that fall from the heads to the embeddings, layer by layer, as in ELECTRA's fine-tuning."""

import re
from collections.abc import Sequence

from fairseq.optim import FairseqOptimizer

_LAYER = re.compile(r"\bsentence_encoder\.layers\.(\d+)\.")


def shares(names: Sequence[str], decay: float) -> dict[str, float]:
    """Return each parameter's fraction of the rate: `decay^(L + 1 - l)` in layer `l` of `0 .. L - 1`, 1 in heads.

    Embeddings and position terms have `decay^(L + 2)`. The layer norm after the last layer has that of the last layer.

    Args:
        names: names of the model's parameters.
        decay: learning rate of a layer divided by that of the next layer.
    """
    layers = {name: int(found[1]) for name in names if (found := _LAYER.search(name))}
    depth = 1 + max(layers.values(), default=-1)

    def power(name: str) -> int:
        if name in layers:
            return depth + 1 - layers[name]
        if "sentence_encoder.layer_norm." in name:
            return 2
        return depth + 2 if "sentence_encoder." in name else 0

    return {name: decay ** power(name) for name in names}


def split_groups(optimizer: FairseqOptimizer, share_of: dict[str, float]) -> list[float]:
    """Group the optimizer's parameters by their fraction, the largest first; return the fractions.

    Args:
        optimizer: an optimizer with one group: the model's parameters, or their copies in 32 bits.
        share_of: fraction of the learning rate by parameter name, in the order of the group.
    """
    (group,) = groups = optimizer.param_groups
    options = {name: value for name, value in group.items() if name != "params"}
    of_share: dict[float, list] = {}
    for p, share in zip(group["params"], share_of.values(), strict=True):  # not flattened
        of_share.setdefault(share, []).append(p)
    ordered = sorted(of_share, reverse=True)
    groups[:] = [{"params": of_share[share], **options} for share in ordered]
    return ordered
