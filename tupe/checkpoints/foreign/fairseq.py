"""Read a folder that fairseq released: `model.pt` with its training options, whose strings are never evaluated."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture
from torch import Tensor

from tupe.checkpoints.foreign.model import Foreign
from tupe.checkpoints.foreign.names import ENCODER, HEAD, POSITIONS, from_fairseq
from tupe.checkpoints.foreign.vocabulary import Tokenizer, by_role, from_json, sentence_piece
from tupe.data.tokenizers import FAIRSEQ_SYMBOLS, MASK
from tupe.patches.checkpoints import read_dictionary
from tupe.patches.safe_load import safe_load
from tupe.systems import SYSTEMS
from tupe.util import read_json

WEIGHTS, DICTIONARY, ENCODER_JSON = "model.pt", "dict.txt", "encoder.json"

#: Options of fairseq's RoBERTa with the names of this plugin's fields.
_OPTIONS = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("activation_fn", "pooler_activation_fn", "dropout", "attention_dropout", "activation_dropout", "pooler_dropout"),
)

#: The meters in the state of a training of 2019, which a model does not need: they are read as plain namespaces.
METERS = [
    (SimpleNamespace, f"fairseq.{module}.{name}")
    for module in ("meters", "logging.meters")
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter", "SumMeter")
]


def read(folder: Path, head: str | None, bpe: Path | None, with_tokenizer: bool) -> Foreign:
    """Read a folder, with the requested classification head.

    The rows of `<s>` and `</s>` are 0 and 2, which fairseq's tasks train. fairseq's hub and Transformers take the last
    rows of these names, which differ where a dictionary repeats them (`#fairseq:overwrite`), as CamemBERT's does.
    """
    state = safe_load(folder / WEIGHTS, METERS)
    options = state.get("args") or state["cfg"]["model"]  # a `Namespace` in either, as the model has no dataclass
    options = vars(options) if isinstance(options, Namespace) else options
    weights = from_fairseq({name: tensor.float() for name, tensor in state["model"].items()})
    heads, prefix = {name: weights.pop(name) for name in [*weights] if name.startswith(HEAD)}, f"{HEAD}{head}."
    kept = {name[len(prefix) :]: tensor for name, tensor in heads.items() if name.startswith(prefix)}
    fields = _fields(options, weights)
    dictionary = read_dictionary(folder / DICTIONARY)
    roles = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk(), dictionary.index(MASK))
    folder = bpe or folder
    symbols, rows = by_role(_pieces(dictionary, folder), dict(zip((*FAIRSEQ_SYMBOLS, MASK), roles)))
    original = _original(Namespace(**{**options, **fields, "data": ""}), state["model"], dictionary, head, kept)

    def run(tokens: Tensor, *_: object) -> dict[str, Tensor]:
        outputs = {"features": original(tokens, features_only=True)[0]}
        if foreign.has_lm_head:
            outputs["logits"] = original(tokens)[0]
        if head is not None:
            outputs["head"] = original(tokens, classification_head_name=head)[0]
        return outputs

    foreign = Foreign(
        kind="RoBERTa of fairseq",
        fields=fields,
        weights=weights,
        symbols=symbols,
        rows=rows,
        tokenizer=(sentence_piece(folder) or _byte_level(folder, symbols)) if with_tokenizer else None,
        run=run,
        left=[name for name in heads if not name.startswith(prefix)],
        head=kept,
    )
    return foreign


def _fields(options: Mapping[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    known = {name: options[name] for name in _OPTIONS if options.get(name) is not None}
    if known.get("activation_fn") == "gelu_fast":
        known["activation_fn"] = "gelu_accurate"
    # in 2019 this option added a norm to the embeddings; only pre-norm models have a norm after the last layer
    known["encoder_normalize_before"] = f"{ENCODER}layer_norm.weight" in weights
    return {**SYSTEMS["bert_a"], **known, "layer_norm_eps": 1e-5, "max_positions": len(weights[POSITIONS])}


def _pieces(dictionary: Dictionary, folder: Path) -> list[str]:
    """Return the symbols of a dictionary; pieces replace the numbers that stand for a byte-level BPE's pieces."""
    encoder = folder / ENCODER_JSON
    pieces = {str(number): piece for piece, number in read_json(encoder).items()} if encoder.is_file() else {}
    return [pieces.get(symbol, symbol) for symbol in dictionary.symbols]


def _byte_level(folder: Path, symbols: list[str]) -> Tokenizer:
    """Return GPT-2's byte-level BPE of the files in a folder."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer.from_file(str(folder / ENCODER_JSON), str(folder / "vocab.bpe"))
    return from_json(tokenizer.to_str(), symbols)


def _original(
    args: Namespace, state: dict[str, Tensor], dictionary: Dictionary, head: str | None, of_head: dict[str, Tensor]
) -> RobertaModel:
    """Build fairseq's own model. PyTorch raises an error if the dictionary has another size than the weights."""
    args.tokens_per_sample = args.max_positions
    base_architecture(args)
    model = RobertaModel.build_model(args, SimpleNamespace(source_dictionary=dictionary))
    if head is not None:
        model.register_classification_head(head, num_classes=len(of_head["out_proj.weight"]))
    model.load_state_dict(dict(state), strict=False)  # some files lack the decoder, tied to the embedding
    return model.eval()
