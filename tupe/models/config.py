"""The configuration of the encoder: every field is a `fairseq-train` flag and a Hydra key."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from fairseq import utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from tupe.attention import BACKENDS
from tupe.errors import UserError
from tupe.position.registry import read_own
from tupe.systems import CHOICES, named_electras, named_models

OWN_ABSOLUTE, OWN_RELATIVE, OWN_OPTIONS = read_own()  # terms of the user's own


def with_own(choices: Sequence[str], own: list[str]) -> ChoiceEnum:
    """Raises `UserError` for a term of the user's own under a name of ours."""
    taken = set(choices) & set(own)
    if taken:
        raise UserError(f"{taken.pop()} is a term of this plugin: register your own under another name")
    return ChoiceEnum([*choices, *own])


ABSOLUTE_CHOICES = with_own(CHOICES["absolute"], OWN_ABSOLUTE)
RELATIVE_CHOICES = with_own(CHOICES["relative"], OWN_RELATIVE)
RESET_CHOICES, SEGMENT_CHOICES, SHARING_CHOICES = (
    ChoiceEnum(CHOICES[name]) for name in ("reset", "segment", "sharing")
)
BACKEND_CHOICES = ChoiceEnum(["auto", *BACKENDS])
SHARED_POSITIONS_CHOICES = ChoiceEnum(["none", "table", "all"])
UNPAD_CHOICES = ChoiceEnum(["auto", "always", "never"])
ACTIVATION_CHOICES = ChoiceEnum(utils.get_available_activation_fns())


OwnOptions = dataclasses.make_dataclass(
    "OwnOptions",
    [
        (name, type(option.default), field(default=option.default, metadata={"help": option.help}))
        for name, option in OWN_OPTIONS.items()
    ],
    bases=(FairseqDataclass,),
)


@dataclass
class EncoderConfig(OwnOptions):
    """An encoder's positions and layers: TUPE-R at base size."""

    absolute: ABSOLUTE_CHOICES = field(
        default="untied",
        metadata={
            "help": "absolute positions: added to the words (input), a correlation of their own (untied), "
            "the same with the two cross terms (untied_cross), DIET's factors (low_rank; low_rank_input adds BERT's "
            "table to the words as well), a free value for each pair of positions (free), or none"
        },
    )
    relative: RELATIVE_CHOICES = field(
        default="bucketed",
        metadata={
            "help": "relative positions: T5's buckets (bucketed), one value for each distance up to the maximum "
            "(clipped), for each distance there is (unbinned), products of learnt vectors (parametric), vectors that "
            "join the keys (shaw), or none"
        },
    )
    reset: RESET_CHOICES = field(
        default="paper",
        metadata={
            "help": "untie [CLS] from the positions: as the paper writes it, as the authors' release computes it "
            "(with relative values for the reset cells), or none"
        },
    )
    segment: SEGMENT_CHOICES = field(
        default="none",
        metadata={
            "help": "segments of a sentence pair, told apart by its separators: added to the words (input), "
            "in the attention of every head (per_head), or none"
        },
    )
    sharing: SHARING_CHOICES = field(
        default="layer",
        metadata={
            "help": "who shares the position terms of the attention: the layers, each head its own (layer); the heads "
            "of a layer, each layer its own (head); or nobody (none)"
        },
    )
    position_rank: int = field(default=64, metadata={"help": "rank d_p of the low_rank term"})
    shaw_values: bool = field(
        default=False, metadata={"help": "shaw: relative positions in the values too; rules out fused attention"}
    )
    linformer_k: int = field(
        default=0, metadata={"help": "Linformer: project keys and values to this many rows; 0 for full attention"}
    )
    relative_buckets: int = field(default=32, metadata={"help": "number of buckets, even"})
    relative_max_distance: int = field(
        default=128, metadata={"help": "distance from which all share the last bucket, or are clipped"}
    )
    untied_projection_bias: bool = field(
        default=False, metadata={"help": "biases on the position projections U^Q and U^K, as in the authors' release"}
    )
    no_untied_layer_norm: bool = field(
        default=False,
        metadata={"help": "no layer norm on the untied positions before their projections"},
    )
    content_terms: int = field(
        default=0,
        metadata={
            "help": "scale the words' correlation by 1/sqrt(content_terms d_h), as one of so many products: 2 is "
            "TUPE's; 0 for as many as there are"
        },
    )

    encoder_layers: int = field(default=12, metadata={"help": "number of layers"})
    encoder_embed_dim: int = field(default=768, metadata={"help": "width d"})
    encoder_ffn_embed_dim: int = field(default=3072, metadata={"help": "width of the feed-forward part"})
    encoder_attention_heads: int = field(default=12, metadata={"help": "number of heads H"})
    embedding_dim: int = field(
        default=0, metadata={"help": "width of the tables of words and positions; 0 for that of the encoder"}
    )
    encoder_normalize_before: bool = field(default=False, metadata={"help": "pre-norm layers instead of post-norm"})
    no_layernorm_embedding: bool = field(default=False, metadata={"help": "no layer norm on the input embeddings"})
    activation_fn: ACTIVATION_CHOICES = field(default="gelu", metadata={"help": "activation of the feed-forward part"})
    dropout: float = field(default=0.1, metadata={"help": "dropout of embeddings, attention and feed-forward outputs"})
    attention_dropout: float = field(default=0.1, metadata={"help": "dropout of the attention weights"})
    activation_dropout: float = field(default=0.0, metadata={"help": "dropout after the activation"})
    attention_backend: BACKEND_CHOICES = field(
        default="auto", metadata={"help": "how attention is computed; auto is the fastest that works here"}
    )
    unpad: UNPAD_CHOICES = field(
        default="auto",
        metadata={
            "help": "compute tokens alone, and padding only in the attention (always, never); auto: where that "
            "was seen to be faster, on the CPU"
        },
    )
    checkpoint_activations: bool = field(
        default=False, metadata={"help": "compute each layer again in backward instead of keeping its activations"}
    )
    compile: bool = field(
        default=False, metadata={"help": "fuse the layers' element-wise parts in training, by torch.compile"}
    )
    dictionary_sha256: Optional[str] = field(
        default=None, metadata={"help": "checksum of the dictionary, filled in at training and compared on loading"}
    )
    save_interval_minutes: float = field(
        default=0.0, metadata={"help": "also write checkpoint_last.pt when the last save is this long ago; 0: never"}
    )


@dataclass
class TupeConfig(EncoderConfig):
    """A masked language model with the encoder; `tupe.systems` names them."""

    pooler_activation_fn: ACTIVATION_CHOICES = field(
        default="tanh", metadata={"help": "activation of the classification heads"}
    )
    pooler_dropout: float = field(default=0.0, metadata={"help": "dropout in the classification heads"})
    linear_heads: bool = field(
        default=False, metadata={"help": "classification heads of one linear layer, as ELECTRA's, instead of two"}
    )
    max_positions: Optional[int] = field(
        default=None, metadata={"help": "longest sequence, [CLS] included; default: the task's (tokens_per_sample)"}
    )
    untie_weights_roberta: bool = field(
        default=False, metadata={"help": "separate output embeddings instead of the input's"}
    )
    load_checkpoint_heads: bool = field(
        default=False, metadata={"help": "register the classification heads found in a checkpoint when loading it"}
    )


@dataclass
class ElectraConfig(TupeConfig):
    """A generator and a discriminator, which the other fields describe."""

    generator_size: float = field(
        default=1 / 3,
        metadata={"help": "widths and number of heads of the generator, over those of the discriminator"},
    )
    share_positions: SHARED_POSITIONS_CHOICES = field(
        default="table",
        metadata={
            "help": "position terms of the attention that generator and discriminator share: the table of untied "
            "positions with its layer norm and theta (table), everything, at equal widths (all), or nothing (none)"
        },
    )


def check_own(*configs: type[EncoderConfig]) -> None:
    """Raises `UserError` for an option of the user's own term under the name of a field of ours."""
    taken = sorted(set(OWN_OPTIONS).intersection(name for config in configs for name in config.__annotations__))
    if taken:
        raise UserError(f"{taken[0]} is a field of our models: call the option of your term otherwise")


check_own(EncoderConfig, TupeConfig, ElectraConfig)


def config_class(name: str, defaults: dict[str, object], base: type[EncoderConfig]) -> type[EncoderConfig]:
    """The configuration of a named model, `base` with other defaults, in the module of `base`."""
    fields = [
        (f.name, f.type, field(default=defaults[f.name], metadata=f.metadata))
        for f in dataclasses.fields(base)
        if f.name in defaults
    ]
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Config"
    config = dataclasses.make_dataclass(class_name, fields, bases=(base,))
    config.__module__ = base.__module__  # so that a run on several processes can send it
    setattr(sys.modules[base.__module__], class_name, config)
    return config


#: model name -> its configuration class. One class a name: Hydra ignores what an architecture function would fill in.
CONFIGS = {
    **{name: config_class(name, fields, TupeConfig) for name, fields in named_models().items()},
    **{name: config_class(name, fields, ElectraConfig) for name, fields in named_electras().items()},
}
