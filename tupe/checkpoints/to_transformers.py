"""A checkpoint as a folder that Transformers loads, written without Transformers and without a network."""

import contextlib
import dataclasses
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from torch import Tensor

from tupe.checkpoints.card import About, card
from tupe.checkpoints.load import open_checkpoint
from tupe.checkpoints.tokenizer import build_tokenizer, imported_tokenizer, tokenizer_config
from tupe.checkpoints.transformers_format import (
    AUTO_MAP,
    CHECKSUM,
    CHOICES,
    FIELDS,
    OUTPUT_EMBEDDINGS,
    SAID_OTHERWISE,
    WINDOWS,
    checksum,
    config_fields,
    in_order,
    to_theirs,
)
from tupe.data.corpus.manifest import versions
from tupe.data.corpus.tokenizers import JSON, MODEL
from tupe.data.glue.own import description
from tupe.data.glue.tasks import Task
from tupe.errors import UserError, needing
from tupe.fairseq_patches.checkpoints import special_symbols
from tupe.files import own, sha256, write_bytes, write_json
from tupe.models.config import TupeConfig
from tupe.models.tupe import TupeModel
from tupe.systems import system_fields

SHIPPED = ("configuration_tupe.py", "modeling_tupe.py")


@dataclass(frozen=True)
class Loaded:
    """A checkpoint with all that an export needs."""

    model: TupeModel  # in evaluation mode, on the CPU, in float32
    symbols: list[str]  # of the dictionary, in order
    cfg: dict[str, Any]  # the checkpoint's configuration
    updates: int  # how many it was trained for
    head: str | None  # the classification head of the task that it was fine-tuned for
    labels: list[str] | None  # its classes; one name without meaning for a regression
    kind: str  # `MaskedLM`, `SequenceClassification`, `TokenClassification` or `QuestionAnswering`
    untrained: bool = False  # whether its language-model head is, as it was a discriminator
    own: Task | None = None  # the description of the task of one's own that it was fine-tuned for

    @property
    def name(self) -> str:
        return self.cfg["model"]["_name"]


def load(checkpoint: Path, data: Path) -> Loaded:
    """Load a checkpoint of ours with the dictionary in `data`.

    Raises:
        UserError: for no checkpoint, a model that is none of our encoders, a field that an export does not know, and
            a dictionary that is missing or another.
    """
    opened = open_checkpoint(checkpoint)
    _check_fields(checkpoint, opened.config)
    cfg, updates, task = opened.state["cfg"], opened.updates, opened.task
    words = task.get("_name") == "tupe_token_classification"
    fine_tuned = words or task.get("_name") == "tupe_sentence_prediction"
    wanted = [data / "input0/dict.txt", data / "label/dict.txt"] if fine_tuned else [data / "dict.txt"]
    if task.get("num_classes") == 1 and not task.get("multi_label"):  # a regression
        del wanted[1:]
    for path in wanted:
        if not path.is_file():
            what = "the prepared task that it was fine-tuned on" if fine_tuned else "the corpus that it was trained on"
            raise UserError(f"there is no {path}: give as DATA the folder of {what}")
    opened.check_classes(data)
    model, fairseq_task = opened.model(data)
    if not isinstance(model, TupeModel) or hasattr(model, "generator"):
        raise UserError(
            f"{checkpoint} holds {cfg['model']['_name']}, which is not a single encoder: only those are exported; of a "
            "model with a generator, its discriminator, which tupe export-electra writes"
        )
    head = labels = None
    kind = "QuestionAnswering" if getattr(model, "span_head", None) is not None else "MaskedLM"
    if words:
        kind, labels = "TokenClassification", fairseq_task.classes
    elif fine_tuned:
        kind, head = "SequenceClassification", fairseq_task.cfg.classification_head_name
        labels = ["LABEL_0"]
        if not fairseq_task.cfg.regression_target:
            known = fairseq_task.label_dictionary
            labels = [label for label, special in zip(known.symbols, special_symbols(known)) if not special]
        if len(set(labels)) != fairseq_task.cfg.num_classes:
            raise UserError(
                f"{data}/label/dict.txt has {len(set(labels))} labels for the {fairseq_task.cfg.num_classes} classes "
                f"of {checkpoint}: give the task that it was fine-tuned on"
            )
    symbols, untrained = fairseq_task.source_dictionary.symbols, "encoder.lm_head.bias" not in opened.weights
    untrained = untrained and kind == "MaskedLM"
    own = description(data) if fine_tuned else None
    return Loaded(model.eval().float(), symbols, cfg, updates, head, labels, kind, untrained, own)


def _check_fields(checkpoint: Path, config: TupeConfig) -> None:
    system = system_fields(TupeConfig)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in system and field.name not in (*FIELDS, *SAID_OTHERWISE) and value != field.default:
            raise UserError(
                f"{checkpoint} has the field {field.name}={value!r}, which an exported model does not have: only "
                f"models with {field.default!r} can be exported"
            )
    for field, choices in CHOICES.items():
        value = str(getattr(config, field))
        if value not in choices:
            raise UserError(
                f"{checkpoint} has {field}={value}, which an exported model does not have: only "
                f"{', '.join(choices)} can be exported"
            )


def weights(loaded: Loaded) -> dict[str, Tensor]:
    """Return the tensors of `model.safetensors`; a matrix that is input and output embedding is there once."""
    state = loaded.model.state_dict()
    if not loaded.model.args.untie_weights_roberta:
        del state[OUTPUT_EMBEDDINGS]
    return {to_theirs(name, loaded.head): tensor.contiguous() for name, tensor in state.items()}


def config(loaded: Loaded) -> dict[str, Any]:
    args = vars(loaded.model.args)
    content = {
        "architectures": [f"TupeFor{loaded.kind}"],
        "model_type": "tupe",
        "auto_map": AUTO_MAP,
        "dtype": "float32",
        "vocab_size": len(loaded.symbols),
        **config_fields(args),
        "initializer_range": 0.02,
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": not args["untie_weights_roberta"],
        "fairseq": {
            "model": loaded.name,
            "task": loaded.cfg["task"]["_name"],
            "dictionary_sha256": args.get("dictionary_sha256"),
            "symbols": len(loaded.symbols),
            "head": loaded.head,
            **{name: loaded.cfg["task"][name] for name in WINDOWS if name in loaded.cfg["task"]},
        },
        "tupe_version": versions().get("tupe", "unknown"),
    }
    if loaded.labels is not None:
        several = loaded.cfg["task"].get("multi_label", False)
        regression = len(loaded.labels) == 1 and not several
        content["id2label"] = {str(i): label for i, label in enumerate(loaded.labels)}
        content["label2id"] = {label: i for i, label in enumerate(loaded.labels)}
        kind = "multi_label_classification" if several else "single_label_classification"
        if loaded.kind == "SequenceClassification":
            content["problem_type"] = "regression" if regression else kind
    return content


def _licence() -> str | None:
    """Return the licence of the shipped code, if this package is installed and not only on the path."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        found = [file for file in metadata.files("tupe") or () if file.name == "LICENSE"]
        return found[0].read_text("utf-8") if found else None
    return None


def export(
    checkpoint: str | Path,
    data: str | Path,
    out: str | Path,
    corpus: str | Path | None = None,
    tokenizer: bool = True,
    **about: Any,
) -> list[str]:
    """Write the folder `out`: configuration, weights, tokenizer, model code and card.

    Args:
        checkpoint: one of ours, pre-trained or fine-tuned.
        data: the folder with its dictionary, a corpus or a prepared task.
        out: new, empty, or an earlier export of the same checkpoint, whose place this one takes.
        corpus: the folder with the SentencePiece model and the corpus' manifest; `data` if not given.
        tokenizer: whether to make one.
        about: more for the card, fields of `tupe.checkpoints.card.About`.

    Returns:
        What the user should know, a sentence each.

    Raises:
        UserError: as `load` and `build_tokenizer`; a package is missing; `out` is something else's.
    """
    with needing("an export", "transformers"):
        from safetensors.torch import save
    checkpoint, data, out = Path(checkpoint), Path(data), Path(out)
    loaded = load(checkpoint, data)
    corpus = Path(corpus or data)
    described = About.gather(checkpoint, loaded, corpus, tokenizer, **about)
    built = None
    if tokenizer:
        pieces, separators = corpus / MODEL, loaded.model.args.pair_separators
        if described.tokenizer_as_imported:
            built = imported_tokenizer(corpus / JSON, loaded.symbols, separators)
        elif pieces.is_file():
            built = build_tokenizer(pieces, loaded.symbols, described.stages, separators)
        else:
            raise UserError(
                f"there is neither {MODEL} nor {JSON} in {corpus}: give the corpus' folder (--corpus), or export "
                "without a tokenizer (--no-tokenizer)"
            )
    with own(out, "tupe export", {"checkpoint": sha256(checkpoint)}):
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):  # of an earlier export
            (out / name).unlink(missing_ok=True)
        for name in SHIPPED:
            write_bytes(out / name, (Path(__file__).parents[1] / "transformers" / name).read_bytes())
        tensors = weights(loaded)
        content = in_order(save(tensors, {"format": "pt", CHECKSUM: checksum(tensors)}))
        write_bytes(out / "model.safetensors", content)
        if built is not None:
            write_bytes(out / "tokenizer.json", built.to_str(pretty=True).encode())
            has_mask = "<mask>" in loaded.symbols
            write_json(out / "tokenizer_config.json", tokenizer_config(loaded.model.max_positions(), has_mask))
        if (licence := _licence()) is not None:
            write_bytes(out / "LICENSE", licence.encode())
        write_bytes(out / "README.md", card(described, out.resolve().name).encode())
        write_json(out / "config.json", config(loaded))  # last: without it the folder is none
    return described.notes
