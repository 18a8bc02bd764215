"""Configuration of the encoders: every field is a `fairseq-train` flag and a Hydra key."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import dataclasses
import functools
import sys
from dataclasses import dataclass, field
from typing import Optional

from fairseq import utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from tupe.attention import BACKENDS
from tupe.errors import UserError
from tupe.position.registry import freeze
from tupe.systems import CHOICES, explained, named_electras, named_models

OWN_ABSOLUTE, OWN_RELATIVE, OPTIONS = freeze()  # terms from outside this package; options of registered terms


def encoding(help: str) -> dict[str, str]:
    """Return the metadata of a field of the position encoding (`tupe.systems.system_fields`)."""
    return {"help": help, "system": "encoding"}


def structure(help: str) -> dict[str, str]:
    """Return the metadata of a field, other than of the position encoding, that changes what parameters compute."""
    return {"help": help, "system": "structure"}


ABSOLUTE_CHOICES = ChoiceEnum([*CHOICES["absolute"], *OWN_ABSOLUTE])
RELATIVE_CHOICES = ChoiceEnum([*CHOICES["relative"], *OWN_RELATIVE])
RESET_CHOICES, SEGMENT_CHOICES, SHARING_CHOICES, ROTARY_SCALING_CHOICES = (
    ChoiceEnum([*CHOICES[name]]) for name in ("reset", "segment", "sharing", "rotary_scaling")
)
DEBERTA_TERMS_CHOICES, DEBERTA_PROJECTIONS_CHOICES, DEBERTA_INDEX_CHOICES = (
    ChoiceEnum([*CHOICES[f"deberta_{name}"]]) for name in ("terms", "projections", "index")
)
BACKEND_CHOICES = ChoiceEnum(["auto", *BACKENDS])
SHARED_POSITIONS_CHOICES = ChoiceEnum(["none", "table", "all"])
UNPAD_CHOICES = ChoiceEnum(["auto", "always", "never"])
ACTIVATION_CHOICES = ChoiceEnum(utils.get_available_activation_fns())


OwnOptions = dataclasses.make_dataclass(
    "OwnOptions",
    [
        (name, type(option.default), field(default=option.default, metadata=encoding(option.help)))
        for name, option in OPTIONS.items()
    ],
    bases=(FairseqDataclass,),
)


@dataclass
class EncoderConfig(OwnOptions):
    """An encoder's positions and layers: TUPE-R at base size."""

    absolute: ABSOLUTE_CHOICES = field(
        default="untied", metadata=encoding(f"absolute positions. {explained(CHOICES['absolute'])}")
    )
    relative: RELATIVE_CHOICES = field(
        default="bucketed", metadata=encoding(f"relative positions. {explained(CHOICES['relative'])}")
    )
    reset: RESET_CHOICES = field(
        default="paper", metadata=encoding(f"[CLS] untied from the positions. {explained(CHOICES['reset'])}")
    )
    segment: SEGMENT_CHOICES = field(
        default="none",
        metadata=encoding(
            f"segments of a sentence pair, told apart by its separators. {explained(CHOICES['segment'])}"
        ),
    )
    sharing: SHARING_CHOICES = field(
        default="layer",
        metadata=encoding(f"who shares the position terms of the attention. {explained(CHOICES['sharing'])}"),
    )
    position_rank: int = field(default=64, metadata=encoding("rank d_p of the low_rank term"))
    shaw_values: bool = field(
        default=False, metadata=encoding("shaw: relative positions in the values too; rules out fused attention")
    )
    linformer_k: int = field(
        default=0, metadata=encoding("Linformer: project keys and values to this many rows; 0 for full attention")
    )
    deberta_terms: DEBERTA_TERMS_CHOICES = field(
        default="c2p+p2c", metadata=encoding(f"terms of deberta. {explained(CHOICES['deberta_terms'])}")
    )
    deberta_projections: DEBERTA_PROJECTIONS_CHOICES = field(
        default="shared",
        metadata=encoding(f"projections of deberta's distances. {explained(CHOICES['deberta_projections'])}"),
    )
    deberta_index: DEBERTA_INDEX_CHOICES = field(
        default="code", metadata=encoding(f"rows of deberta's table. {explained(CHOICES['deberta_index'])}")
    )
    relative_buckets: int = field(
        default=32, metadata=encoding("number of buckets, even; of deberta a side, or 0 to clip the distances")
    )
    relative_max_distance: int = field(
        default=128, metadata=encoding("distance from which all share the last bucket, or are clipped")
    )
    untied_projection_bias: bool = field(
        default=False, metadata=encoding("biases on the position projections U^Q and U^K, as in the authors' release")
    )
    no_untied_layer_norm: bool = field(
        default=False, metadata=encoding("no layer norm on the untied positions before their projections")
    )
    rotary_dims: int = field(
        default=0,
        metadata=encoding(
            "rotary positions (RoPE): turn so many columns of each query and key; -1 for all, 0 for none"
        ),
    )
    rotary_base: float = field(default=10000.0, metadata=encoding("base of the angles of rotary positions"))
    rotary_scaling: ROTARY_SCALING_CHOICES = field(
        default="none",
        metadata=encoding(
            f"angles of rotary positions for inputs longer than in training. {explained(CHOICES['rotary_scaling'])}"
        ),
    )
    rotary_factor: float = field(
        default=1.0, metadata=encoding("how many times longer than in training, for rotary_scaling")
    )
    rotary_length: float = field(
        default=0.0,
        metadata=encoding("yarn: longest sequence of training; 0 for max_positions / rotary_factor, which is saved"),
    )
    rotary_reset: bool = field(
        default=False, metadata=encoding("[CLS] untied from the angles of rotary positions: its pairs are not turned")
    )
    randomised_positions: int = field(
        default=0,
        metadata=encoding(
            "in training, draw the positions of each batch from so many, for longer inputs later; 0: as in the text"
        ),
    )
    content_terms: int = field(
        default=0,
        metadata=encoding(
            "scale the words' correlation by 1/sqrt(content_terms d_h), as one of so many products: 2 is TUPE's; 0 for "
            "as many as there are"
        ),
    )

    encoder_layers: int = field(default=12, metadata=structure("number of layers"))
    encoder_embed_dim: int = field(default=768, metadata=structure("width d"))
    encoder_ffn_embed_dim: int = field(default=3072, metadata=structure("width of the feed-forward part"))
    encoder_attention_heads: int = field(default=12, metadata=structure("number of heads H"))
    embedding_dim: int = field(
        default=0, metadata=structure("width of the tables of words and positions; 0 for that of the encoder")
    )
    encoder_normalize_before: bool = field(default=False, metadata=structure("pre-norm layers instead of post-norm"))
    no_layernorm_embedding: bool = field(default=False, metadata=structure("no layer norm on the input embeddings"))
    layer_norm_eps: float = field(
        default=1e-5, metadata=structure("what every layer norm adds to the variance; BERT's is 1e-12")
    )
    activation_fn: ACTIVATION_CHOICES = field(default="gelu", metadata=structure("activation of the feed-forward part"))
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
    attention_window: int = field(
        default=0,
        metadata=encoding("attend to tokens at most this far to each side, and to and from [CLS]; 0: to all"),
    )
    log_length: int = field(
        default=0,
        metadata=encoding(
            "multiply the queries of a sequence of n tokens by log n / log of this, the length of training; 0: not"
        ),
    )
    max_positions: Optional[int] = field(
        default=None, metadata={"help": "longest sequence, [CLS] included; default: the task's (tokens_per_sample)"}
    )
    pair_separators: int = field(
        default=2,
        metadata=structure("separators </s> between the two texts of a pair: 2 as RoBERTa's, or 1 as BERT's [SEP]"),
    )
    untie_weights_roberta: bool = field(
        default=False, metadata=structure("separate output embeddings instead of the input's")
    )
    load_checkpoint_heads: bool = field(
        default=False, metadata={"help": "register the classification heads found in a checkpoint when loading it"}
    )


@dataclass
class ElectraConfig(TupeConfig):
    """ELECTRA's generator and discriminator; all other fields are the discriminator's."""

    generator_size: float = field(
        default=1 / 3,
        metadata=structure("widths and number of heads of the generator, over those of the discriminator"),
    )
    share_positions: SHARED_POSITIONS_CHOICES = field(
        default="table",
        metadata=structure(
            "position terms of the attention that generator and discriminator share: the table of untied positions "
            "with its layer norm and theta (table), everything, at equal widths (all), or nothing (none)"
        ),
    )


def check_options(*configs: type[EncoderConfig]) -> None:
    """Raise `UserError` if an option of a registered term has the name of a field of ours."""
    taken = sorted(set(OPTIONS).intersection(name for config in configs for name in config.__annotations__))
    if taken:
        raise UserError(f"{taken[0]} is a field of our models: call the option of your term otherwise")


check_options(EncoderConfig, TupeConfig, ElectraConfig)


def config_class(name: str, defaults: dict[str, object], base: type[EncoderConfig]) -> type[EncoderConfig]:
    """Make the configuration class of a named model: `base` with other defaults, in the module of `base`."""
    other = [f for f in dataclasses.fields(base) if f.name in defaults]
    fields = [(f.name, f.type, field(default=defaults[f.name], metadata=f.metadata)) for f in other]
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Config"
    # compiling methods of its own for each of some 200 classes would take half of the time of the import
    initialise = functools.partialmethod(base.__init__, **{f.name: defaults[f.name] for f in other})
    config = dataclasses.make_dataclass(
        class_name,
        fields,
        bases=(base,),
        init=False,
        repr=False,
        eq=False,
        namespace={"__doc__": base.__doc__, "__init__": initialise},
    )
    config.__module__ = base.__module__  # so that it can be pickled for a run on several processes
    setattr(sys.modules[base.__module__], class_name, config)
    return config


#: model name -> its configuration class. Each name has its own, since Hydra ignores fairseq's architecture functions.
CONFIGS = {
    **{name: config_class(name, fields, TupeConfig) for name, fields in named_models().items()},
    **{name: config_class(name, fields, ElectraConfig) for name, fields in named_electras().items()},
}
