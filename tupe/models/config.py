"""Configuration of the encoders: every field is a `fairseq-train` flag and a Hydra key."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import dataclasses
import functools
import os
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq import utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import OmegaConf

from tupe.attention import BACKENDS
from tupe.position.registry import REGISTRY, registered_options
from tupe.systems import (
    CHOICES,
    CROSS_POSITION,
    ELECTRAS,
    MODELS,
    SEQ2SEQ_ABSOLUTE,
    TRANSLATORS,
    Fields,
    explained,
    setting,
    system_fields,
)
from tupe.util import UserError

TERM_OPTIONS = registered_options()
#: Names of terms that are registered outside this package.
_USER_TERMS = {kind: [name for name in terms if name not in CHOICES[kind]] for kind, terms in REGISTRY.items()}

#: Fields that a run takes from the `pretrained` checkpoint, besides those of its system.
TAKEN = ("max_positions", "pooler_activation_fn")

#: Fields that change what parameters compute (`tupe.systems.system_fields`): of the position encoding, and others.
encoding = functools.partial(setting, system="encoding")
structure = functools.partial(setting, system="structure")

ENUMS = {name: ChoiceEnum([*choices, *_USER_TERMS.get(name, ())]) for name, choices in CHOICES.items()}
ACTIVATION_CHOICES = ChoiceEnum(utils.get_available_activation_fns())


def choice(name: str, default: str, help: str) -> Any:
    """Make a field of the position encoding whose values are `ENUMS[name]`; its help explains them."""
    return encoding(default, f"{help}. {explained(CHOICES[name])}")


TermOptions = dataclasses.make_dataclass(
    "TermOptions",
    [(name, type(default), encoding(default, help)) for name, (default, help) in TERM_OPTIONS.items()],
    bases=(FairseqDataclass,),
)


@dataclass
class EncoderConfig(TermOptions):
    """An encoder's positions and layers: TUPE-R at base size."""

    absolute: ENUMS["absolute"] = choice("absolute", "untied", "absolute positions")
    relative: ENUMS["relative"] = choice("relative", "bucketed", "relative positions")
    reset: ENUMS["reset"] = choice("reset", "paper", "untying of [CLS] from the positions")
    segment: ENUMS["segment"] = choice("segment", "none", "segments of a sentence pair, from its separators")
    relative_sides: ENUMS["relative_sides"] = choice("relative_sides", "symmetric", "slopes of alibi")
    sharing: ENUMS["sharing"] = choice("sharing", "layer", "sharing of the position terms")
    position_rank: int = encoding(64, "rank d_p of the low_rank term")
    shaw_values: bool = encoding(False, "shaw: relative positions in the values too; rules out fused attention")
    linformer_k: int = encoding(0, "Linformer: project keys and values to this many rows; 0 for full attention")
    relative_buckets: int = encoding(32, "number of buckets, even; for deberta per side, or 0 to clip the distances")
    relative_max_distance: int = encoding(128, "distances beyond this one share the last bucket or value")
    untied_projection_bias: bool = encoding(
        False, "biases on the position projections U^Q and U^K, as in the authors' release"
    )
    no_untied_layer_norm: bool = encoding(False, "no layer norm on the untied positions before their projections")
    rotary_dims: int = encoding(
        0, "rotary positions (RoPE): number of rotated dimensions of each query and key; -1 for all, 0 for none"
    )
    rotary_base: float = encoding(10000.0, "base of the angles of rotary positions")
    content_terms: int = encoding(
        0,
        "scale the content by 1/sqrt(content_terms d_h): 2 as in TUPE; 0 for the number of products that the "
        "logit sums",
    )

    encoder_layers: int = structure(12, "number of layers")
    encoder_embed_dim: int = structure(768, "width d")
    encoder_ffn_embed_dim: int = structure(3072, "width of the feed-forward part")
    encoder_attention_heads: int = structure(12, "number of heads H")
    embedding_dim: int = structure(0, "width of the token and position embeddings; 0 for that of the encoder")
    encoder_normalize_before: bool = structure(False, "pre-norm layers instead of post-norm")
    no_layernorm_embedding: bool = structure(False, "no layer norm on the input embeddings")
    layer_norm_eps: float = structure(1e-5, "added to the variance by every layer norm; BERT's is 1e-12")
    activation_fn: ACTIVATION_CHOICES = structure("gelu", "activation of the feed-forward part")
    dropout: float = setting(0.1, "dropout of embeddings, attention and feed-forward outputs")
    attention_dropout: float = setting(0.1, "dropout of the attention weights")
    activation_dropout: float = setting(0.0, "dropout after the activation")
    attention_backend: ChoiceEnum(["auto", *BACKENDS]) = setting(
        "auto", "implementation of attention; auto chooses by device, type and bias"
    )
    unpad: ChoiceEnum(["auto", "always", "never"]) = setting(
        "auto",
        "skip padding (always, never); auto: on the CPU, if fewer than 95% of the slots of a batch are tokens",
    )
    checkpoint_activations: bool = setting(False, "recompute each layer in backward instead of keeping its activations")
    compile: bool = setting(False, "fuse the layers' element-wise parts in training, by torch.compile")
    dictionary_sha256: Optional[str] = setting(
        None, "checksum of the dictionary, set by training and compared on loading"
    )
    save_interval_minutes: float = setting(
        0.0, "also write checkpoint_last.pt this many minutes after the last save; 0: never"
    )


@dataclass
class TupeConfig(EncoderConfig):
    """A masked language model; `tupe.systems` lists the named ones."""

    pooler_activation_fn: ACTIVATION_CHOICES = setting("tanh", "activation of the classification heads")
    pooler_dropout: float = setting(0.0, "dropout in the classification heads")
    linear_heads: bool = setting(False, "classification heads of one linear layer, as in ELECTRA, instead of two")
    attention_window: int = encoding(
        0, "attend to tokens at most this far to each side, and to and from [CLS]; 0: to all"
    )
    global_every: int = encoding(
        0,
        "with a window: every n-th layer, from the first, attends to all tokens, and windows treat [CLS] as any token; "
        "0: all layers have the window",
    )
    local_rotary_base: float = encoding(0.0, "rotary_base of the layers with a window; 0 for that of the others")
    gated: bool = structure(False, "gated feed-forward part, act(x W_1) * (x W_2) (GeGLU with gelu)")
    no_biases: bool = structure(False, "no biases in the embedding, the layers and their norms")
    no_first_norm: bool = structure(False, "no layer norm before the attention of the first layer")
    max_positions: Optional[int] = setting(
        None, "longest sequence, [CLS] included; default: the task's (tokens_per_sample)"
    )
    pair_separators: int = structure(
        2, "separators </s> between the two texts of a pair: 2 as in RoBERTa, or 1 as in BERT ([SEP])"
    )
    untie_weights_roberta: bool = structure(False, "separate output embeddings instead of the input's")
    pretrained: Optional[str] = setting(None, "checkpoint whose system, longest sequence and weights a run starts from")
    load_checkpoint_heads: bool = setting(
        False, "register the classification heads found in a checkpoint when loading it"
    )


@dataclass
class ElectraConfig(TupeConfig):
    """ELECTRA's generator and discriminator. The inherited fields are the discriminator's."""

    generator_size: float = structure(
        1 / 3, "widths and number of heads of the generator, as a fraction of the discriminator's"
    )
    share_positions: ChoiceEnum(["none", "table", "all"]) = structure(
        "table",
        "position terms of the attention that generator and discriminator share: the table of untied positions "
        "with its layer norm and theta (table), everything, if widths are equal (all), or nothing (none)",
    )


@dataclass
class Seq2SeqConfig(EncoderConfig):
    """An encoder-decoder, Vaswani et al.'s by default; `tupe.systems` lists all. `EncoderConfig` is for both stacks."""

    absolute: ChoiceEnum([*SEQ2SEQ_ABSOLUTE, *_USER_TERMS["absolute"]]) = encoding(
        "sinusoidal", f"absolute positions of both stacks. {explained(SEQ2SEQ_ABSOLUTE)}"
    )
    relative: ChoiceEnum([term.value for term in ENUMS["relative"] if term.value != "deberta"]) = encoding(
        "none", "relative positions of both stacks, as in the encoders (`tupe systems`)"
    )
    reset: ChoiceEnum(["none"]) = encoding("none", "none: a translation does not have [CLS]")
    segment: ChoiceEnum(["none"]) = encoding("none", "none: a translation has one text per side")
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
        None, "checksum of the target dictionary, as dictionary_sha256 for the source"
    )


#: model name -> its dataclass, and the fields that differ from the dataclass's defaults.
NAMED: dict[str, tuple[type[EncoderConfig], Fields]] = {
    **{name: (TupeConfig, row) for name, row in MODELS.items()},
    **{name: (ElectraConfig, row) for name, row in ELECTRAS.items()},
    **{name: (Seq2SeqConfig, row) for name, row in TRANSLATORS.items()},
}


def named(name: str, **fields: object) -> Any:
    """Return the configuration of a named model, with other `fields`."""
    kind, row = NAMED[name]
    return kind(**{"_name": name, **row, **fields})


def undecided(kind: type[EncoderConfig]) -> type[EncoderConfig]:
    """Derive the dataclass that fairseq reads, in which fields that depend on the model default to `None`."""
    depend = {*system_fields(kind), *TAKEN, *(name for other, row in NAMED.values() if other is kind for name in row)}
    chosen = (f for f in dataclasses.fields(kind) if f.name in depend)
    fields = [(f.name, Optional[f.type], field(default=None, metadata=f.metadata)) for f in chosen]
    return dataclasses.make_dataclass(f"Undecided{kind.__name__}", fields, bases=(kind,))


def saved_config(state: dict[str, Any], path: str | os.PathLike) -> TupeConfig:
    """Return the configuration of the encoder in a checkpoint, with `max_positions` filled in.

    A field that the model's dataclass does not have is left out, and one that the checkpoint does not have gets the
    default of the model's name. `state` is the output of `safe_load`.

    Raises:
        UserError: the settings have fairseq's old form. fairseq prefers them and evaluates their strings as Python.
    """
    if state.get("args") is not None or "task" in ((state.get("cfg") or {}).get("task") or {}):
        raise UserError(
            f"{path} has settings of fairseq's old form (args), whose text fairseq runs as Python. Use a checkpoint "
            "that this plugin wrote."
        )
    model, task = state["cfg"]["model"], state["cfg"].get("task") or {}
    usual = named(model["_name"])
    known = {name: value for name, value in model.items() if name in vars(usual)}
    merged = OmegaConf.merge(OmegaConf.structured(usual), known)  # raises for a value of another type or choice
    config = type(usual)(**OmegaConf.to_container(merged, enum_to_str=True))
    config.max_positions = config.max_positions or task.get("tokens_per_sample") or task["max_positions"]
    return config
