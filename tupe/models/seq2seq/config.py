"""Configuration of the encoder-decoders: the encoder's fields, and those of the decoder and the cross-attention."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
from argparse import Namespace
from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import ChoiceEnum

from tupe.errors import UserError
from tupe.models.config import (
    ACTIVATION_CHOICES,
    ENUMS,
    OWN_ABSOLUTE,
    EncoderConfig,
    check_options,
    config_class,
    encoding,
    structure,
)
from tupe.systems import CROSS_POSITION, IN_LAYER, SEQ2SEQ_ABSOLUTE, explained, named_translators, setting


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


check_options(Seq2SeqConfig)


def encoder_args(args: Namespace) -> Namespace:
    """Return the fields of the encoder's stack."""
    return Namespace(**{**vars(args), "max_positions": args.max_source_positions})


def decoder_args(args: Namespace) -> Namespace:
    """Return the fields of the decoder's stack, by the names of the encoder's."""
    layers = args.decoder_layers or args.encoder_layers
    return Namespace(**{**vars(args), "max_positions": args.max_target_positions, "encoder_layers": layers})


def check_terms(args: Namespace) -> None:
    """Raise `UserError` for a term that has no meaning in an encoder-decoder."""
    if args.reset != "none":
        raise UserError(f"reset is {args.reset}, but a translation has no [CLS] to untie: set reset=none")
    if args.segment != "none":
        raise UserError(f"segment is {args.segment}, but a translation has one sentence a side: set segment=none")
    if args.embedding_dim:
        raise UserError(f"embedding_dim is {args.embedding_dim}, but must be 0, for the width, in an encoder-decoder")
    if args.linformer_k:
        raise UserError(f"linformer_k is {args.linformer_k}, but its keys mix in the future: set linformer_k=0")
    if args.relative == "deberta":
        raise UserError(
            "relative=deberta is of encoders, as its distances ask the words on both sides: choose another relative "
            "term"
        )
    if args.cross_position == "diagonal" and args.relative in IN_LAYER:
        raise UserError(
            "cross_position=diagonal is T5's relative term, which does not go with relative terms that meet the words "
            f"({', '.join(sorted(IN_LAYER))}): set cross_position to none, low_rank or untied"
        )


#: model name -> its configuration class.
CONFIGS = {name: config_class(name, fields, Seq2SeqConfig) for name, fields in named_translators().items()}
