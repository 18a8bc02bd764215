"""A checkpoint as a folder that Transformers loads, written without Transformers and without a network."""

import contextlib
import shutil
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
    CHOICES,
    FIELDS,
    OUTPUT_EMBEDDINGS,
    SAID_OTHERWISE,
    WINDOWS,
    config_fields,
    to_theirs,
)
from tupe.data.manifest import versions
from tupe.data.tokenizers import JSON, MODEL
from tupe.models.config import ElectraConfig, TupeConfig
from tupe.models.tupe import TupeModel
from tupe.patches.checkpoints import special_symbols
from tupe.systems import system_fields
from tupe.util import UserError, atomic, check_new, write_json

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
    kind: str  # `MaskedLM`, `SequenceClassification` or `QuestionAnswering`
    untrained: bool = False  # whether its language-model head is, as it was a discriminator

    @property
    def name(self) -> str:
        return self.cfg["model"]["_name"]


def load(checkpoint: Path, data: Path) -> Loaded:
    """Load a checkpoint of ours with the dictionary in `data`.

    Raises:
        UserError: the model is an ELECTRA or has a field that an export does not know, or the classes are others.
    """
    opened = open_checkpoint(checkpoint)
    _check_fields(checkpoint, opened.config)
    opened.check_classes(data)
    model, fairseq_task = opened.model(data)
    head = labels = None
    kind = "QuestionAnswering" if getattr(model, "span_head", None) is not None else "MaskedLM"
    if opened.task.get("_name") == "tupe_sentence_prediction":
        kind, head = "SequenceClassification", fairseq_task.cfg.classification_head_name
        labels = ["LABEL_0"]
        if not fairseq_task.cfg.regression_target:
            known = fairseq_task.label_dictionary
            labels = [label for label, special in zip(known.symbols, special_symbols(known)) if not special]
    untrained = kind == "MaskedLM" and "encoder.lm_head.bias" not in opened.weights
    symbols = fairseq_task.source_dictionary.symbols
    model = model.eval().float()
    return Loaded(model, symbols, opened.state["cfg"], opened.updates, head, labels, kind, untrained)


def _check_fields(checkpoint: Path, config: TupeConfig) -> None:
    """Raise `UserError` for a field that the exported code does not read, whose model would compute something else."""
    if isinstance(config, ElectraConfig):
        raise UserError(f"{checkpoint} has two networks. Export what `tupe convert electra` makes of it.")
    for name in (*system_fields(TupeConfig), "pooler_activation_fn"):
        value, known = getattr(config, name), (*FIELDS, *SAID_OTHERWISE)
        if value not in CHOICES.get(name, [value]) or (name not in known and value != getattr(TupeConfig, name)):
            raise UserError(f"{checkpoint} has {name}={value}, which an exported model cannot compute.")


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
        out: a new folder.
        corpus: the folder with the SentencePiece model and the corpus' manifest; `data` if not given.
        tokenizer: whether to make one.
        about: more for the card, fields of `tupe.checkpoints.card.About`.

    Returns:
        What the user should know, a sentence each.

    Raises:
        UserError: as `load` and `build_tokenizer`, or `out` exists.
    """
    from safetensors.torch import save_file

    checkpoint, data, out = Path(checkpoint), Path(data), Path(out)
    check_new(out)
    loaded = load(checkpoint, data)
    corpus = Path(corpus or data)
    described = About.gather(checkpoint, loaded, corpus, tokenizer, **about)
    with atomic(out) as made:
        made.mkdir()
        for name in SHIPPED:
            shutil.copyfile(Path(__file__).parents[1] / "transformers" / name, made / name)
        save_file(weights(loaded), made / "model.safetensors", {"format": "pt"})
        if tokenizer:
            separators = loaded.model.args.pair_separators
            if described.tokenizer_as_imported:
                built = imported_tokenizer(corpus / JSON, loaded.symbols, separators)
            else:
                built = build_tokenizer(corpus / MODEL, loaded.symbols, described.stages, separators)
            built.save(str(made / "tokenizer.json"))
            has_mask = "<mask>" in loaded.symbols
            write_json(made / "tokenizer_config.json", tokenizer_config(loaded.model.max_positions(), has_mask))
        if (licence := _licence()) is not None:
            (made / "LICENSE").write_text(licence, encoding="utf-8")
        (made / "README.md").write_text(card(described, out.resolve().name), encoding="utf-8")
        write_json(made / "config.json", config(loaded))
    return described.notes
