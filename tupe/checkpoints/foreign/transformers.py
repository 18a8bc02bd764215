"""Read a folder of `save_pretrained` with Transformers' own classes, which never run code from the folder."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe.checkpoints.foreign.head import refuse_several_labels
from tupe.checkpoints.foreign.model import Foreign
from tupe.checkpoints.foreign.names import LAYER, POSITIONS, SEGMENTS, from_transformers, head_of
from tupe.checkpoints.foreign.vocabulary import by_role, from_json, sentence_piece
from tupe.data.tokenizers import FAIRSEQ_SYMBOLS, MASK
from tupe.patches.safe_load import safe_load
from tupe.systems import MODERN, SYSTEMS
from tupe.util import UserError, import_transformers

#: Activation of Transformers -> fairseq's, where their names differ.
_ACTIVATIONS = {"gelu_python": "gelu"}
_ACTIVATIONS |= dict.fromkeys(("gelu_new", "gelu_fast", "gelu_pytorch_tanh"), "gelu_accurate")
#: Activation of the classification head between its two layers.
_HEAD_ACTIVATIONS = {"distilbert": "relu", "electra": "gelu"}
_TRUSTED = {"local_files_only": True, "trust_remote_code": False}


def read(folder: Path, with_head: bool, with_pooler: bool, with_tokenizer: bool) -> Foreign:
    """Read a folder.

    Raises:
        UserError: a layer has parameters that its model does not have.
    """
    transformers = import_transformers()
    transformers.logging.set_verbosity_error()  # it lists the parameters that a head leaves out, which is reported here
    transformers.logging.disable_progress_bar()
    for path in folder.glob("pytorch_model*.bin"):
        safe_load(path)  # PyTorch does not compare the checksums in a file

    def load(auto: type) -> tuple[Any, dict[str, Tensor], list[str]]:
        """Return a model, its parameters that are in the folder, and the names of those that it does not use."""
        model, info = auto.from_pretrained(folder, output_loading_info=True, dtype=torch.float32, **_TRUSTED)
        state = {name: tensor for name, tensor in model.state_dict().items() if name not in info["missing_keys"]}
        return model.eval(), state, sorted(info["unexpected_keys"])

    original, state, left = load(transformers.AutoModelForMaskedLM)
    config = original.config
    kind = config.model_type
    if strange := [name for name in left if re.search(rf"(^|\.){LAYER}\.", name)]:
        raise UserError(f"{folder} has {strange[0]}, which a layer of {kind} does not have. Merge adapters first.")
    table = getattr(original.base_model.embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)  # positions count from it if there is one, as in RoBERTa
    weights, head = from_transformers(state, 0 if padding is None else padding + 1), {}
    if with_head or with_pooler:
        classifier, of_head, _ = load(transformers.AutoModelForSequenceClassification)
        head = head_of(of_head)
        left = [name for name in left if name not in of_head]
    if with_head:
        refuse_several_labels(classifier.config.problem_type)

    def run(tokens: Tensor, words: Tensor, segments: Tensor | None) -> dict[str, Tensor]:
        inputs = {"input_ids": tokens, "attention_mask": words.long()}
        if segments is not None:
            inputs["token_type_ids"] = segments
        outputs = {"features": original.base_model(**inputs).last_hidden_state}
        if foreign.has_lm_head:
            outputs["logits"] = original(**inputs).logits
        if with_head:
            outputs["head"] = classifier(**inputs).logits
        return outputs

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **_TRUSTED)
    symbols, rows = by_role(*_symbols(tokenizer, config.vocab_size))
    separators, files = 1 if tokenizer.num_special_tokens_to_add(pair=True) == 3 else 2, None  # between two texts
    if with_tokenizer:  # SentencePiece's model, because Transformers' conversion lacks bytes and some of Unicode
        files = sentence_piece(folder) or from_json(tokenizer.backend_tokenizer.to_str(), symbols)
    if "token_type_ids" not in tokenizer.model_input_names:
        weights.pop(SEGMENTS, None)  # all tokens have type 0, whose vector is in the positions
    foreign = Foreign(
        kind=f"{kind} of Transformers",
        fields=_fields(config, weights) | {"pair_separators": separators},
        weights=weights,
        symbols=symbols,
        rows=rows,
        tokenizer=files,
        run=run,
        left=left,
        head=head,
        classes=classes_of(config),
    )
    return foreign


def _fields(config: Any, weights: dict[str, Tensor]) -> dict[str, Any]:
    kind, width = config.model_type, config.hidden_size

    def first(*names: str) -> Any:
        """Return the field with the first of these names that the configuration has."""
        return next(getattr(config, name) for name in names if hasattr(config, name))

    activation = first("hidden_activation", "activation", "hidden_act")
    fields = {
        **SYSTEMS["bert_a"],
        "encoder_layers": config.num_hidden_layers,
        "encoder_embed_dim": width,
        "encoder_attention_heads": config.num_attention_heads,
        "encoder_ffn_embed_dim": first("intermediate_size", "hidden_dim"),
        "activation_fn": _ACTIVATIONS.get(activation, activation),
        "pooler_activation_fn": _HEAD_ACTIVATIONS.get(kind, "tanh"),
        "dropout": first("hidden_dropout_prob", "dropout", "embedding_dropout"),
        "attention_dropout": first("attention_probs_dropout_prob", "attention_dropout"),
        "layer_norm_eps": 1e-12 if kind == "distilbert" else first("norm_eps", "layer_norm_eps"),
        "max_positions": len(weights[POSITIONS]) if POSITIONS in weights else config.max_position_embeddings,
        "encoder_normalize_before": kind == "roberta-prelayernorm",
        "segment": "input" if SEGMENTS in weights else "none",
    }
    if kind == "modernbert":
        by_type = {name: rope["rope_theta"] for name, rope in config.rope_parameters.items()}
        everywhere = [*config.layer_types, "full_attention"]  # a model may have no second layer that attends to all
        fields |= {
            **MODERN,
            "activation_dropout": config.mlp_dropout,
            "absolute": "none",
            "rotary_dims": -1,
            "rotary_base": by_type["full_attention"],
            "local_rotary_base": by_type["sliding_attention"],
            "attention_window": config.sliding_window,
            "global_every": everywhere.index("full_attention", 1),
        }
    if kind == "mpnet":
        fields["relative"] = "bucketed"
    if kind == "electra" and config.embedding_size != width:
        fields["embedding_dim"] = config.embedding_size
    if kind == "deberta-v2":
        fields["absolute"] = "input" if POSITIONS in weights else "none"
        fields["pooler_activation_fn"] = _ACTIVATIONS.get(config.pooler_hidden_act, config.pooler_hidden_act)
        if config.relative_attention:
            farthest = config.max_relative_positions
            fields["relative"] = "deberta"
            fields["relative_buckets"] = max(0, config.position_buckets)
            fields["relative_max_distance"] = config.max_position_embeddings if farthest < 1 else farthest
    return fields


def classes_of(config: Any) -> list[str] | None:
    """Return the names of the classes by their numbers; a regression and Transformers' own `LABEL_0` have none."""
    found = [config.id2label[number] for number in range(config.num_labels)]
    return None if len(found) == 1 or found == [f"LABEL_{number}" for number in range(len(found))] else found


def _symbols(tokenizer: Any, rows: int) -> tuple[list[str | None], dict[str, int]]:
    """Return the symbol of each row of the embedding table, and the row of each special symbol by fairseq's name."""
    symbols: list[str | None] = [None] * rows
    for name, number in tokenizer.get_vocab().items():
        symbols[number] = None if name.endswith("NOTUSED") else name  # CamemBERT's, which occur in no text
    first, last = tokenizer.cls_token or tokenizer.bos_token, tokenizer.sep_token or tokenizer.eos_token
    names = (first, tokenizer.pad_token, last, tokenizer.unk_token, tokenizer.mask_token)
    return symbols, dict(zip((*FAIRSEQ_SYMBOLS, MASK), tokenizer.convert_tokens_to_ids([*names])))
