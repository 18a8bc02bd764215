"""DeBERTa's positions in Transformers (`deberta-v2`, the second and third version) as those of ours.

The attention is that of the released models: `share_att_key: true`, `norm_rel_ebd: layer_norm`, c2p and p2c.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from tupe.checkpoints.foreign.names import DISTANCES_NORM, FAMILIES, Family
from tupe.errors import UserError

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


def fields(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Translate the positions of the `config.json` in `path` to our fields.

    Raises:
        UserError: for what has no counterpart here, by the name of its field.
    """
    width, heads = (_whole(path, config, name, 0) for name in ("hidden_size", "num_attention_heads"))
    of_head = width // heads if heads > 0 else 0
    for name, usual in (
        ("conv_kernel_size", 0),
        ("embedding_size", width),
        ("attention_head_size", of_head),
        ("pooler_hidden_size", width),
    ):
        value = config.get(name)
        if value not in (usual, None):
            raise UserError(f"{path}: {name} is {value!r:.60}, and only {usual} is imported: ours has nothing like it")
    found: dict[str, Any] = {"absolute": "input" if config.get("position_biased_input", True) else "none"}
    asked = config.get("pos_att_type") or []
    asked = [term.strip() for term in asked.lower().split("|")] if isinstance(asked, str) else asked
    relative = config.get("relative_attention") is True
    if not isinstance(asked, list) or any(term not in _TERMS for term in asked) or bool(asked) != relative:
        raise UserError(
            f"{path}: pos_att_type is {config.get('pos_att_type')!r:.60} and relative_attention {relative}, and only "
            "c2p, p2c or both with relative attention, and none without it, are imported"
        )
    if not relative:
        return found
    shared = config.get("share_att_key") is True and str(config.get("norm_rel_ebd")).lower().strip() == "layer_norm"
    if {*asked} != {*_TERMS} or not shared:
        raise UserError(
            f"{path}: only c2p and p2c with share_att_key true and norm_rel_ebd layer_norm are imported, as in the "
            f"released models, not {asked} with {config.get('share_att_key')!r:.60} and "
            f"{config.get('norm_rel_ebd')!r:.60}"
        )
    longest = _whole(path, config, "max_position_embeddings", 512)
    farthest = _whole(path, config, "max_relative_positions", -1)
    farthest = longest if farthest < 1 else farthest
    buckets = max(0, _whole(path, config, "position_buckets", -1))
    if buckets and (buckets % 2 or buckets < 4 or farthest < buckets // 2 + 2):
        raise UserError(
            f"{path}: position_buckets is {buckets}, for distances up to {farthest}, and only even numbers from 4 to "
            f"{2 * farthest - 4} are imported"
        )
    return found | {"relative": "deberta", "relative_buckets": buckets, "relative_max_distance": farthest}


def fit(found: dict[str, Any], weights: dict[str, Tensor], left: list[str]) -> list[str]:
    """Delete from `weights` those that the fields `found` do not have; return what is `left` behind."""
    if found["relative"] != "deberta":
        for name in [name for name in weights if name.startswith(DISTANCES_NORM)]:
            del weights[name]  # of a table that is not there
    decoder = [name for name in left if name.startswith(_MASK_DECODER)]
    if not decoder:
        return left
    return [*(name for name in left if name not in decoder), "the enhanced mask decoder (lm_predictions)"]


def _whole(path: Path, config: dict[str, Any], name: str, default: int) -> int:
    value = config.get(name, default)
    if type(value) is not int or value > 1_000_000:
        raise UserError(f"{path}: {name} is {value!r:.60}, not a whole number: get the file again")
    return value
