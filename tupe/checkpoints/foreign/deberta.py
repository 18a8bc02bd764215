"""DeBERTa's positions in Transformers (`deberta-v2`, the second and third version) as those of ours.

The attention is that of the released models: `share_att_key: true`, `norm_rel_ebd: layer_norm`, c2p and p2c.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from tupe.checkpoints.foreign.names import DISTANCES_NORM, FAMILIES, Family
from tupe.util import UserError

KIND = "deberta-v2"
_TERMS = ("c2p", "p2c")  # in our order
#: What Microsoft's decoder of masks is called: it adds absolute positions to the encoder's output, and attends twice.
_MASK_DECODER = "lm_predictions."


def family(config: dict[str, Any]) -> Family:
    """Return the names of the parameters.

    Where `config.json` says `legacy: false`, Transformers runs the mask decoder's last layers as BERT's head.
    """
    names, head = FAMILIES[KIND], f"{_MASK_DECODER}lm_head."
    if config.get("legacy") is not False:
        return names
    parts = {"dense.": "dense.", "LayerNorm.": "layer_norm.", "bias": "bias"}
    return names._replace(lm_head={head + theirs: ours for theirs, ours in parts.items()})


def usual(config: dict[str, Any]) -> dict[str, Any]:
    """Return the values of fields that change the function of the weights and have no counterpart here."""
    width = config["hidden_size"]
    of_head = width // config["num_attention_heads"]
    return {
        "conv_kernel_size": 0,
        "embedding_size": width,
        "attention_head_size": of_head,
        "pooler_hidden_size": width,
    }


def fields(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Translate the positions of the `config.json` in `path` to our fields.

    Raises:
        UserError: it has other products of distances than ours.
    """
    found: dict[str, Any] = {"absolute": "input" if config.get("position_biased_input", True) else "none"}
    asked = config.get("pos_att_type") or []
    asked = [term.strip() for term in asked.lower().split("|")] if isinstance(asked, str) else asked
    relative = config.get("relative_attention", False)
    if not asked and not relative:
        return found
    norm = (config.get("norm_rel_ebd") or "none").lower().strip()
    if not relative or {*asked} != {*_TERMS} or not config.get("share_att_key") or norm != "layer_norm":
        raise UserError(
            f"{path}: pos_att_type is {asked}, share_att_key {config.get('share_att_key')} and norm_rel_ebd {norm}. "
            "Only c2p and p2c, true and layer_norm can be imported, as the released models have."
        )
    longest, farthest = config.get("max_position_embeddings", 512), config.get("max_relative_positions", -1)
    return found | {
        "relative": "deberta",
        "relative_buckets": max(0, config.get("position_buckets", -1)),
        "relative_max_distance": longest if farthest < 1 else farthest,
    }


def fit(found: dict[str, Any], weights: dict[str, Tensor], left: list[str]) -> list[str]:
    """Delete from `weights` those that the fields `found` do not have; return what is `left` behind."""
    if found["relative"] != "deberta":
        for name in [name for name in weights if name.startswith(DISTANCES_NORM)]:
            del weights[name]  # of a table that is not there
    decoder = [name for name in left if name.startswith(_MASK_DECODER)]
    if not decoder:
        return left
    return [*(name for name in left if name not in decoder), "the enhanced mask decoder (lm_predictions)"]
