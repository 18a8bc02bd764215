"""Configuration of the encoder-decoders: the encoder's fields, and those of the decoder and the cross-attention."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
from argparse import Namespace
from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum

from tupe.models.config import (
    ACTIVATION_CHOICES,
    ENUMS,
    OWN_ABSOLUTE,
    EncoderConfig,
    config_class,
    encoding,
    structure,
)
from tupe.systems import CROSS_POSITION, SEQ2SEQ_ABSOLUTE, explained, named_translators, setting
from tupe.util import UserError


@dataclass
class Seq2SeqConfig(EncoderConfig):
    """Vaswani et al.'s Transformer; `tupe.systems` names the others. Fields of the encoder are the decoder's too."""

    absolute: ChoiceEnum([*SEQ2SEQ_ABSOLUTE, *OWN_ABSOLUTE]) = encoding(
        "sinusoidal", f"absolute positions of both stacks. {explained(SEQ2SEQ_ABSOLUTE)}"
    )
    relative: ENUMS["relative"] = encoding(
        "none", "relative positions of both stacks, as in the encoders (`tupe systems`)"
    )
    reset: ENUMS["reset"] = encoding("none", "none: a translation has no [CLS]")
    cross_position: ChoiceEnum([*CROSS_POSITION]) = structure(
        "none", f"positions of the attention from the target to the source. {explained(CROSS_POSITION)}"
    )

    encoder_layers: int = structure(6, "number of layers of the encoder")
    decoder_layers: Optional[int] = structure(None, "decoder layers; default: the encoder's")
    encoder_embed_dim: int = structure(512, "width d, of both stacks")
    encoder_ffn_embed_dim: int = structure(2048, "width of the feed-forward parts")
    encoder_attention_heads: int = structure(8, "number of heads H of each attention")
    no_layernorm_embedding: bool = structure(True, "no layer norm on the input embeddings")
    activation_fn: ACTIVATION_CHOICES = structure("relu", "activation of the feed-forward parts")
    attention_dropout: float = setting(0.0, "dropout of the attention weights")
    share_all_embeddings: bool = structure(False, "one table for source, target and output; needs a joined dictionary")
    share_decoder_input_output_embed: bool = structure(False, "one table for the target's input and the output")
    max_source_positions: Optional[int] = setting(None, "longest source; default: the task's")
    max_target_positions: Optional[int] = setting(None, "longest target; default: the task's")
    target_dictionary_sha256: Optional[str] = setting(
        None, "checksum of the target's dictionary, as dictionary_sha256 of the source's"
    )


def encoder_args(args: Namespace) -> Namespace:
    """Return the fields of the encoder's stack."""
    return Namespace(**{**vars(args), "max_positions": args.max_source_positions})


def decoder_args(args: Namespace) -> Namespace:
    """Return the fields of the decoder's stack, by the names of the encoder's."""
    layers = args.decoder_layers or args.encoder_layers
    return Namespace(**{**vars(args), "max_positions": args.max_target_positions, "encoder_layers": layers})


def check_terms(args: Namespace) -> None:
    """Raise `UserError` for a term of an encoder, whose model would be built and compute something else here."""
    if args.reset != "none" or args.segment != "none":
        raise UserError("reset and segment must be none, because a translation has no [CLS] and one text on each side.")
    if args.linformer_k or args.relative == "deberta":
        raise UserError("linformer_k must be 0 and relative not deberta, because a decoder sees no later words.")


#: model name -> its configuration class.
CONFIGS = {name: config_class(name, fields, Seq2SeqConfig) for name, fields in named_translators().items()}
