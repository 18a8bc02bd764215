"""The configuration of an encoder. This file is shipped with exported models: it imports no `tupe`."""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

#: Field of the plugin -> its name here, where Transformers has a usual one.
NAMES = {
    "encoder_embed_dim": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_embed_dim": "intermediate_size",
    "activation_fn": "hidden_act",
    "pooler_activation_fn": "pooler_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "pooler_dropout": "classifier_dropout",
    "max_positions": "max_position_embeddings",
}
#: Transformers' class -> the class in a saved folder.
AUTO_MAP = {
    "AutoConfig": "configuration_tupe.TupeConfig",
    "AutoModel": "modeling_tupe.TupeModel",
    "AutoModelForMaskedLM": "modeling_tupe.TupeForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_tupe.TupeForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_tupe.TupeForTokenClassification",
    "AutoModelForQuestionAnswering": "modeling_tupe.TupeForQuestionAnswering",
}


@strict(accept_kwargs=True)
class TupeConfig(PreTrainedConfig):
    r"""TUPE-R (Ke et al. 2021) at base size; other values make the other systems of the papers.

    Fields of one term (`fire_width`, `rotary_base`, ...) are explained where that term is defined.

    Args:
        absolute: absolute positions: `none`, `input` (added to the embeddings, BERT), `untied` (from the content),
            `untied_cross` (the same with the two cross terms), `low_rank` (DIET's factors), `low_rank_input` (with
            BERT's table too), `free` (a value for each pair).
        relative: relative positions: `none`, `bucketed` (T5), `clipped`, `unbinned` (DIET), `parametric`, `shaw`,
            `deberta`, `pope`, `dual_triangle`, `alibi`, `kerple`, `fire`.
        reset: `[CLS]` untied from the positions: `none`, `paper`, or `release` (the authors' code).
        segment: segments of a sentence pair: `none`, `input` (BERT), or `per_head` (DIET).
        sharing: what shares the position terms: `layer` (all layers), `head` (the heads of a layer), or `none`.
        position_rank: width of the `low_rank` factors.
        linformer_k: number of rows that keys and values are projected to; 0 for full attention.
        rotary_dims: number of rotated dimensions of each query and key (RoPE); -1 for all, 0 for none.
        pair_separators: 2 for pairs of texts `<s> a </s> </s> b </s>`, 1 for `<s> a </s> b </s>`.
        linear_heads: the classification head is one layer, as in ELECTRA, instead of two.
        embedding_dim: width of the tables of tokens and positions; 0 for `hidden_size`.
        attention_window: attend to tokens at most this far to each side, and to and from [CLS]; 0 for all.
        global_every: with a window, every n-th layer, from the first, attends to all; windows then include [CLS] only
            where it is near. 0: all layers have the window.
        local_rotary_base: `rotary_base` of the layers with a window; 0 for that of the others.
        gated: the feed-forward part is `act(x W_1) * (x W_2)` (GeGLU) before its last layer.
        no_biases: the embedding, the layers and their norms have no biases.
        no_first_norm: no layer norm before the attention of the first layer.
        attention_backend, unpad: how attention is computed, and when padding is left out (`auto`, `always`, `never`).
        checkpoint_activations: use `gradient_checkpointing_enable()` instead.
    """

    model_type = "tupe"

    vocab_size: int = 32768
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    activation_dropout: float | int = 0.0
    max_position_embeddings: int = 512
    layer_norm_eps: float | int = 1e-5
    initializer_range: float | int = 0.02
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 2
    tie_word_embeddings: bool = True
    pooler_act: str = "tanh"
    classifier_dropout: float | int = 0.0
    linear_heads: bool = False

    absolute: str = "untied"
    relative: str = "bucketed"
    reset: Literal["none", "paper", "release"] = "paper"
    segment: Literal["none", "input", "per_head"] = "none"
    sharing: str = "layer"
    position_rank: int = 64
    shaw_values: bool = False
    linformer_k: int = 0
    relative_buckets: int = 32
    relative_max_distance: int = 128
    relative_sides: str = "symmetric"
    fire_width: int = 32
    fire_length: float | int = 0.0
    rotary_dims: int = 0
    rotary_base: float | int = 10000.0
    untied_projection_bias: bool = False
    encoder_normalize_before: bool = False
    no_layernorm_embedding: bool = False
    pair_separators: int = 2
    no_untied_layer_norm: bool = False
    content_terms: int = 0
    embedding_dim: int = 0
    attention_window: int = 0
    global_every: int = 0
    local_rotary_base: float | int = 0.0
    gated: bool = False
    no_biases: bool = False
    no_first_norm: bool = False
    attention_backend: str = "auto"
    unpad: str = "auto"
    compile: bool = False
    checkpoint_activations: bool = False


__all__ = ["TupeConfig"]
