"""The configuration of an encoder. This file is shipped with exported models: it imports no `tupe`."""

import difflib
import math
import typing

import transformers
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN
from transformers.utils import is_torch_available, logging

if tuple(int(part) for part in transformers.__version__.split(".")[:2]) < (5, 14):
    raise ImportError(
        f"this model needs transformers >= 5.14, whose attention takes a position bias, but {transformers.__version__} "
        "is installed: pip install --upgrade transformers"
    )

logger = logging.get_logger(__name__)

CHOICES = {
    "absolute": ("none", "input", "untied", "untied_cross", "low_rank", "low_rank_input", "free"),
    "relative": ("none", "bucketed", "clipped", "unbinned", "parametric", "shaw", "deberta", "alibi", "kerple", "fire"),
    "relative_sides": ("symmetric", "learned"),
    "reset": ("none", "paper", "release"),
    "segment": ("none", "input", "per_head"),
    "sharing": ("none", "layer", "head"),
}

#: Fields that are whole numbers from 1; `relative_buckets` of `deberta` from 0.
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "position_rank", "relative_buckets", "relative_max_distance", "fire_width"),
)
#: The least and the greatest value of fields that are numbers; others are from 0 on.
_RANGES = {
    **dict.fromkeys(SIZES, (1, math.inf)),
    "rotary_dims": (-1, math.inf),
    "pair_separators": (1, 2),
    **dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), (0, 1)),
    **dict.fromkeys(("activation_dropout", "classifier_dropout", "layer_norm_eps"), (0, 1)),
    "initializer_range": (0, 100),  # weights of greater ones would overflow
    **dict.fromkeys(("fire_length", "rotary_base"), (0, 1e38)),
}
_FROM_0 = (0, math.inf)
_WORDS = {bool: "true or false", str: "text", type(None): "none", list[int]: "a list of such"}


def _fits(value: object, kind: type, least: float, most: float) -> bool:
    if typing.get_origin(kind) is list:
        return isinstance(value, list) and all(_fits(item, *typing.get_args(kind), least, most) for item in value)
    if kind in _WORDS:
        return isinstance(value, kind)
    return isinstance(value, (int, kind)) and not isinstance(value, bool) and least <= value <= most


def _words(kind: type, least: float, most: float) -> str:
    number = f"a {'whole ' * (kind is int)}number from {least}" + f" to {most:g}" * (most < math.inf)
    return _WORDS.get(kind, number)


class TupeConfig(PreTrainedConfig):
    r"""TUPE-R (Ke et al. 2021) at base size; other fields make the other systems of the papers.

    Args:
        absolute: absolute positions: `none`, `input` (added to the words, BERT), `untied` (a correlation of their own),
            `untied_cross` (the same with the two cross terms), `low_rank` (DIET's factors), `low_rank_input` (with
            BERT's table too), `free` (a value for each pair).
        relative: relative positions: `none`, `bucketed` (T5), `clipped`, `unbinned` (DIET), `parametric`, `shaw`,
            `deberta`, `alibi`, `kerple`, `fire`.
        reset: `[CLS]` untied from the positions: `none`, `paper`, or `release` (the authors' code).
        segment: of a sentence pair: `none`, `input` (BERT), or `per_head` (DIET).
        sharing: what shares the position terms: `layer` (all layers), `head` (the heads of a layer), or `none`.
        position_rank: width of the `low_rank` factors.
        shaw_values: whether `shaw` has vectors for the values too.
        linformer_k: keys and values are projected to so many rows; 0 for full attention.
        relative_buckets, relative_max_distance: of the relative terms; `deberta` clips distances with 0 buckets.
        relative_sides: of `alibi`: `symmetric` or `learned`.
        fire_width: hidden units of `fire`.
        fire_length: distance at which `fire` ends at first; 0 for `max_position_embeddings`.
        rotary_dims: so many columns of each query and key turn with their position (RoPE); -1 for all, 0 for none.
        rotary_base: of the angles.
        untied_projection_bias: biases on `U^Q` and `U^K`.
        encoder_normalize_before: pre-norm layers.
        no_layernorm_embedding: no layer norm on the input.
        pooler_act, classifier_dropout: of the classification head.
        pair_separators: between the texts of a pair, `<s> a </s> </s> b </s>` with 2, `<s> a </s> b </s>` with 1.
        linear_heads: the classification head is one layer, as ELECTRA's, instead of two.
    """

    model_type = "tupe"

    vocab_size: int = 32768
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    activation_dropout: float = 0.0
    max_position_embeddings: int = 512
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    tie_word_embeddings: bool = True
    pooler_act: str = "tanh"
    classifier_dropout: float = 0.0
    linear_heads: bool = False

    absolute: str = "untied"
    relative: str = "bucketed"
    reset: str = "paper"
    segment: str = "none"
    sharing: str = "layer"
    position_rank: int = 64
    shaw_values: bool = False
    linformer_k: int = 0
    relative_buckets: int = 32
    relative_max_distance: int = 128
    relative_sides: str = "symmetric"
    fire_width: int = 32
    fire_length: float = 0.0
    rotary_dims: int = 0
    rotary_base: float = 10000.0
    untied_projection_bias: bool = False
    encoder_normalize_before: bool = False
    no_layernorm_embedding: bool = False
    pair_separators: int = 2

    def __post_init__(self, **others: object) -> None:
        self._check_of_transformers(**others)
        super().__post_init__(**others)
        self.check()

    def check(self) -> None:
        """Raise `ValueError` for fields that make no model. Models call it too, as a field can be set at any time."""
        for field, choices in CHOICES.items():
            if getattr(self, field) not in choices:
                raise ValueError(f"{field} is {getattr(self, field)!r}, not one of {', '.join(choices)}")
        for field in ("hidden_act", "pooler_act"):
            if not isinstance(getattr(self, field), str) or getattr(self, field) not in ACT2FN:
                raise ValueError(f"{field} is {getattr(self, field)!r}, but must be one of Transformers, such as gelu")
        ranges = {**_RANGES, "relative_buckets": _FROM_0} if self.relative == "deberta" else _RANGES
        for field, kind in TupeConfig.__annotations__.items():
            value, kinds, limits = getattr(self, field), typing.get_args(kind) or (kind,), ranges.get(field, _FROM_0)
            if not any(_fits(value, one, *limits) for one in kinds):
                said = ", or ".join(_words(one, *limits) for one in kinds)
                raise ValueError(f"{field} is {value!r}, but must be {said}")
        if self.pad_token_id is not None and self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id is {self.pad_token_id}, but must be below vocab_size={self.vocab_size}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}, which num_attention_heads={self.num_attention_heads} must divide"
            )
        if self.relative == "alibi" and self.sharing == "head":
            raise ValueError("alibi's heads differ by their slopes and cannot share one: set sharing to layer or none")
        self._check_terms()
        self._check_linformer()
        self._check_rotary()
        self._check_deberta()
        alone = self.absolute == "none" and self.relative == "alibi" and self.relative_sides == "symmetric"
        if alone and self.reset != "none" and not self.rotary_dims:
            raise ValueError(
                "with the reset and symmetric slopes of alibi alone, a text and its reverse are the same to [CLS]: set "
                "relative_sides to learned, reset to none, or choose absolute positions"
            )

    def _check_of_transformers(self, num_labels: object = 0, torch_dtype: object = None, **others: object) -> None:
        """Raise `ValueError` for a number of labels or a type that Transformers would take, and end in a traceback."""
        if not hasattr(num_labels, "__index__") or isinstance(num_labels, bool) or num_labels < 0:
            raise ValueError(f"num_labels is {num_labels!r}, but must be a whole number from 0")
        names = self.id2label or {}
        if not isinstance(names, dict) or not all(str(number).isdecimal() for number in names):
            raise ValueError(f"id2label is {names!r:.60}, but must be names of the numbers of classes, as {{0: 'a'}}")
        for name in others:
            near = difflib.get_close_matches(name, TupeConfig.__annotations__, n=1, cutoff=0.7)
            if near and not hasattr(self, name):
                logger.warning(f"TupeConfig has no {name} (did you mean {near[0]}?): nothing will read it")
        for dtype in (self.dtype, torch_dtype):
            if isinstance(dtype, str) and is_torch_available():
                import torch  # a tokenizer needs none, and reads the configuration too

                if not isinstance(getattr(torch, dtype, None), torch.dtype):
                    raise ValueError(f"dtype is {dtype!r}, but must be a type of PyTorch, such as float32")

    def _check_terms(self) -> None:
        """Raise `ValueError` for buckets, and for a reset without a term, that the plugin refuses."""
        buckets, most = self.relative_buckets, self.relative_max_distance
        if self.relative == "bucketed" and (buckets % 2 or buckets < 4 or most <= buckets // 4):
            raise ValueError(
                f"relative_buckets is {buckets} and relative_max_distance {most}, but buckets come in two halves: use "
                "an even number from 4 on, and a distance above a quarter of it"
            )
        in_words = self.absolute in ("none", "input") and self.relative in ("none", "shaw", "deberta")
        if self.reset != "none" and (self.absolute == "untied_cross" or in_words):
            raise ValueError(
                "the reset needs a correlation of positions alone, without cross terms: set reset to none, or absolute "
                "or relative to such a term"
            )

    def _check_deberta(self) -> None:
        """Raise `ValueError` for what the plugin's DeBERTa refuses."""
        if self.relative != "deberta":
            return
        if self.absolute == "untied_cross" or self.linformer_k:
            raise ValueError("relative=deberta asks each word: linformer_k must be 0, absolute not untied_cross")
        buckets, most = self.relative_buckets, self.relative_max_distance
        if buckets and (buckets % 2 or buckets < 4):
            raise ValueError(
                f"relative_buckets is {buckets}, but half of DeBERTa's buckets are of one distance: use an even number "
                "from 4 on, or 0 to clip the distances"
            )
        if buckets and most < buckets // 2 + 2:
            raise ValueError(
                f"relative_max_distance is {most}, but with {buckets} buckets a side it must be at least "
                f"{buckets // 2 + 2}: set it higher, or relative_buckets to 0 to clip the distances"
            )

    def _check_linformer(self) -> None:
        """Raise `ValueError` for terms that need a key at each position, which a Linformer does not have."""
        with_any_keys = ("none", "input", "low_rank", "low_rank_input")
        if self.linformer_k and (
            self.absolute not in with_any_keys
            or (self.relative, self.reset) != ("none", "none")
            or self.segment == "per_head"
            or self.rotary_dims
        ):
            raise ValueError(
                f"the keys of linformer_k={self.linformer_k} are mixtures of all positions: set absolute to one of "
                f"{', '.join(with_any_keys)}, relative and reset to none, segment to none or input, and rotary_dims "
                "to 0"
            )

    def _check_rotary(self) -> None:
        """Raise `ValueError` for what the plugin's rotary positions refuse."""
        dims, base = self.rotary_dims, self.rotary_base
        if not dims:
            return  # the base is not read
        head_dim = self.hidden_size // self.num_attention_heads
        width = head_dim if dims == -1 else dims
        if width % 2 or not 2 <= width <= head_dim:
            raise ValueError(
                f"rotary_dims is {dims}, but columns turn in pairs: use an even number from 2 to {head_dim}, the width "
                "of a head"
            )
        if self.relative in ("shaw", "deberta"):
            raise ValueError(f"relative={self.relative} has keys that are not turned: set rotary_dims to 0")
        if not 1 <= base < math.inf:
            raise ValueError(f"rotary_base is {base:g}, but must be at least 1")

    @property
    def position_sets(self) -> int:
        """Number of heads of the model that have position parameters of their own."""
        layers, heads = self.num_hidden_layers, self.num_attention_heads
        return {"none": layers * heads, "layer": heads, "head": layers}[self.sharing]


__all__ = ["TupeConfig"]
