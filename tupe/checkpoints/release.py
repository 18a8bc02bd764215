"""Checkpoints of the TUPE authors' release (github.com/guolinke/TUPE, 2020), read safely and converted.

The release keeps one position table of `P + 1` rows: row 0 is theta_1's vector, row 1 theta_2's, and position `i` uses
row `i + 1`. Its relative table has 33 rows. Rows 0 to 31 are T5's buckets, but T5 never uses bucket 16, so row 16 holds
the value from `[CLS]` to the others. Row 32 holds the value from the others to `[CLS]`.
"""

import shlex
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

from torch import Tensor

from tupe.checkpoints.foreign.names import current_name
from tupe.checkpoints.load import write_checkpoint
from tupe.models import TupeModel
from tupe.models.config import TupeConfig
from tupe.models.summary import dictionary_of_size
from tupe.patches.safe_load import safe_load

CLS_TO_OTHERS, OTHERS_TO_CLS = 16, 32  # rows of the release's relative table

#: Name in the release's `decoder.sentence_encoder.` -> name in this plugin's `encoder.sentence_encoder.`.
_RENAMED = {
    "pos_ln.": "position_bias.absolute.layer_norm.",
    "pos_q_linear.": "position_bias.absolute.query.",
    "pos_k_linear.": "position_bias.absolute.key.",
}
_THEIRS, _OURS = "decoder.sentence_encoder.", "encoder.sentence_encoder."


def convert_release_state(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert a state dict of the release, or its gradients, into this plugin's."""
    converted = {}
    for name, tensor in state.items():
        if name == _THEIRS + "pos.weight":
            converted[_OURS + "position_bias.reset.vectors"] = tensor[:2].clone()
            converted[_OURS + "position_bias.absolute.table.weight"] = tensor[1:].clone()
        elif name == _THEIRS + "relative_attention_bias.weight":
            converted[_OURS + "position_bias.relative.weight"] = tensor[:32].clone()
            converted[_OURS + "position_bias.reset.relative"] = tensor[[CLS_TO_OTHERS, OTHERS_TO_CLS]]
        else:
            for theirs, ours in _RENAMED.items():
                name = name.replace(theirs, ours)
            converted[current_name(name)] = tensor
    return converted


def release_config(args: Namespace) -> TupeConfig:
    """Make the configuration of a model of the release from the `args` in its checkpoint."""
    same = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "activation_fn")
    optional = ("pooler_activation_fn", "encoder_normalize_before")
    optional += ("dropout", "attention_dropout", "activation_dropout", "pooler_dropout")
    fields = {name: getattr(args, name) for name in same}
    fields["max_positions"] = getattr(args, "max_positions", None) or args.tokens_per_sample
    fields.update({name: getattr(args, name) for name in optional if hasattr(args, name)})
    return TupeConfig(
        absolute="untied",
        relative="bucketed" if getattr(args, "rel_pos", False) else "none",
        reset="release",
        untied_projection_bias=True,
        no_layernorm_embedding=not getattr(args, "embedding_normalize", False),
        load_checkpoint_heads=True,
        **fields,
    )


def load_release(path: str | Path) -> TupeModel:
    """Load a checkpoint of the authors' code (TUPE-A or TUPE-R, pre- or post-norm) as a `TupeModel` in evaluation mode.

    Such a file has `args` (a Namespace) and `model` (a state dict). It is read without running code.
    """
    state = safe_load(path)
    config = release_config(state["args"])
    weights = convert_release_state(state["model"])
    dictionary = dictionary_of_size(len(weights[_OURS + "embed_tokens.weight"]))
    model = TupeModel.build_model(config, SimpleNamespace(source_dictionary=dictionary))
    model.load_state_dict(weights)
    return model.eval()


def convert_release(checkpoint: Path, out: Path) -> str:
    """Convert a checkpoint of the TUPE authors' release, TUPE-A or TUPE-R, without running code in the file.

    The optimizer's state is dropped. Continue training with `--init-from`.

    Args:
        checkpoint: Checkpoint of the authors' code.
        out: New file.
    """
    write_checkpoint(out, load_release(checkpoint), "tupe_base")
    return f"wrote {out}; fine-tune it with: tupe finetune TASK {shlex.quote(str(out))} DATA"
