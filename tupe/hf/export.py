"""Export a checkpoint as a folder that Transformers loads, with model code, and compare it with the checkpoint."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tupe
from tupe.checkpoints.load import open_checkpoint
from tupe.data.manifest import NAME, Manifest
from tupe.data.tokenizers import JSON, MODEL
from tupe.hf.card import About, Loaded, card
from tupe.hf.code import write_code
from tupe.hf.tokenizer import build_tokenizer, imported_tokenizer, save_tokenizer
from tupe.models.config import ElectraConfig
from tupe.models.pooling import copy_pooling, read_pooling
from tupe.patches.checkpoints import special_symbols
from tupe.position.registry import registered_options
from tupe.util import UserError, atomic, check_new, import_transformers, read_json, write_json

TOLERANCE = 1e-4  # of the largest score
#: Fields of the question-answering task that the folder keeps.
WINDOWS = ("doc_stride", "max_query", "max_answer")
#: Prefix of a parameter's name -> the prefix in `model.safetensors`; `renamed` adds that of the classification head.
PREFIXES = {
    "encoder.sentence_encoder.": "tupe.",
    "encoder.lm_head.weight": "lm_head.decoder.weight",
    "encoder.lm_head.bias": "lm_head.decoder.bias",
    "encoder.lm_head.": "lm_head.",
    "span_head.": "qa_outputs.",
}


def load(checkpoint: Path, data: Path) -> Loaded:
    """Load a checkpoint of this plugin with the dictionary in `data`.

    Raises:
        UserError: the model is an ELECTRA, or `data` has other classes.
    """
    opened = open_checkpoint(checkpoint)
    if isinstance(opened.config, ElectraConfig):
        raise UserError(f"{checkpoint} has two networks. Run `tupe convert electra` on it, and export the result.")
    model, fairseq_task = opened.model(data)
    head = labels = None
    kind = "Model" if model.encoder.lm_head is None else "ForMaskedLM"
    if hasattr(model, "span_head"):
        kind = "ForQuestionAnswering"
    if opened.task.get("_name") == "tupe_sentence_prediction":
        kind, head = "ForSequenceClassification", fairseq_task.cfg.classification_head_name
        labels = ["LABEL_0"]
        if not fairseq_task.cfg.regression_target:
            known = fairseq_task.label_dictionary
            labels = [label for label, special in zip(known.symbols, special_symbols(known)) if not special]
    symbols = fairseq_task.source_dictionary.symbols
    return Loaded(model.eval().float(), symbols, opened.state["cfg"], opened.updates, head, labels, kind)


def renamed(name: str, head: str | None, back: bool = False) -> str:
    """Return a parameter's name in `model.safetensors`, or with `back` in the fairseq model.

    `head` is the name of the classification head.
    """
    prefixes = {**PREFIXES, f"classification_heads.{head}.": "classifier."}
    pairs = ((theirs, ours) if back else (ours, theirs) for ours, theirs in prefixes.items())
    return next((new + name[len(old) :] for old, new in pairs if name.startswith(old)), name)


def weights(loaded: Loaded) -> dict[str, Tensor]:
    """Return the tensors of `model.safetensors`; tied input and output embeddings are stored once."""
    state = loaded.model.state_dict()
    if not loaded.model.args.untie_weights_roberta:
        state.pop("encoder.lm_head.weight", None)
    return {renamed(name, loaded.head): tensor.contiguous() for name, tensor in state.items()}


def config(loaded: Loaded) -> dict[str, Any]:
    """Return the content of `config.json`."""
    from tupe.hf.configuration_tupe import AUTO_MAP, NAMES, TupeConfig

    args, task = vars(loaded.model.args), loaded.cfg["task"]
    names = dict.fromkeys([*NAMES, *TupeConfig.__dataclass_fields__, *registered_options()])
    content = {
        "architectures": [f"Tupe{loaded.kind}"],
        "model_type": "tupe",
        "auto_map": AUTO_MAP,
        "dtype": "float32",
        "vocab_size": len(loaded.symbols),
        **{NAMES.get(name, name): args[name] for name in names if name in args},
        "bos_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": not args["untie_weights_roberta"],
        "fairseq": {
            "model": loaded.name,
            "task": task["_name"],
            "dictionary_sha256": args.get("dictionary_sha256"),
            "head": loaded.head,
            **{name: task[name] for name in WINDOWS if name in task},
        },
        "tupe_version": tupe.__version__,
    }
    if loaded.labels is not None:
        content["id2label"] = {str(i): label for i, label in enumerate(loaded.labels)}
        content["label2id"] = {label: i for i, label in enumerate(loaded.labels)}
        content["problem_type"] = "regression" if len(loaded.labels) == 1 else "single_label_classification"
        if len(loaded.labels) == 1:  # CrossEncoder would apply a sigmoid
            content["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    return content


def export(
    checkpoint: Path,
    data: Path,
    out: Path,
    *,
    corpus: Path | None = None,
    no_tokenizer: bool = False,
    license: str | None = None,
    base_model: str | None = None,
) -> str:
    """Write a checkpoint as a folder that Hugging Face Transformers loads, with a tokenizer and a model card.

    tupe export checkpoints/tupe_a_base/checkpoint_best.pt data/wiki tupe-base

    Args:
        checkpoint: Checkpoint of this plugin, pre-trained or fine-tuned.
        data: Corpus of the checkpoint, or the task that it was fine-tuned on.
        out: New folder.
        corpus: Folder of the tokenizer and the manifest; DATA by default.
        no_tokenizer: Do not write a tokenizer.
        license: License identifier for the model card, such as mit.
        base_model: Exported model that was fine-tuned, for the card.

    Returns:
        A text for the user: the largest difference of the folder's scores from the checkpoint's over max(1, the
        largest score), and how to load it.

    Raises:
        UserError: `out` exists, or the scores differ by more than `TOLERANCE`.
    """
    from safetensors.torch import save

    check_new(out)
    loaded = load(checkpoint, data)
    corpus, manifest, features = corpus or data, None, loaded.kind in ("Model", "ForMaskedLM")
    # a prepared task has a manifest of its own, but no tokenizer
    if (corpus / NAME).is_file() and any((corpus / file).is_file() for file in (MODEL, JSON)):
        manifest = Manifest.load(corpus)
        if imported := manifest.imported:
            license, base_model = license or imported["license"], base_model or imported["name"]
    beside = checkpoint.parent / "result.json"
    score = read_json(beside) if not features and beside.is_file() else None
    about = About(loaded, manifest, score, not no_tokenizer, license, base_model)
    with atomic(out) as made:
        made.mkdir()
        write_code(made)
        # not `save_file`, whose file only the owner can read
        (made / "model.safetensors").write_bytes(save(weights(loaded), {"format": "pt"}))
        if features and read_pooling(corpus):
            copy_pooling(corpus, made)
        if not no_tokenizer:
            separators = loaded.model.args.pair_separators
            if about.tokenizer_as_imported:
                built = imported_tokenizer(corpus / JSON, loaded.symbols, separators)
            else:
                stages = manifest.settings.stages if manifest else None
                built = build_tokenizer(corpus / MODEL, loaded.symbols, stages, separators)
            save_tokenizer(built, made, loaded.model.max_positions())
        (made / "README.md").write_text(card(about, out.resolve().name), encoding="utf-8")
        write_json(made / "config.json", config(loaded))
        difference = largest_difference(loaded, made)
        if not difference <= TOLERANCE:
            raise UserError(f"The exported model differs from {checkpoint} by {difference:.1e} of its largest score.")
    auto = "AutoModel" + ("" if features else loaded.kind)
    lines = [f"note: {note}" for note in about.notes]
    lines.append(f"largest difference from the checkpoint's scores: {difference:.1e} of the largest")
    lines.append(f'wrote {out}; load it with: {auto}.from_pretrained("{out}", trust_remote_code=True)')
    return "\n".join(lines)


@torch.no_grad()
def largest_difference(loaded: Loaded, folder: Path) -> float:
    """Return how far the scores of the model in `folder`, computed by its code, are from the checkpoint's."""
    import_transformers()
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    # not by AutoModel, which takes the classes of `tupe.hf` once they are registered
    there = get_class_from_dynamic_module(f"modeling_tupe.Tupe{loaded.kind}", folder)
    theirs = there.from_pretrained(folder, use_safetensors=True).eval()
    ids = torch.randint(4, len(loaded.symbols), (2, min(40, loaded.model.max_positions())))
    ids[:, 0] = 0
    if loaded.kind == "ForQuestionAnswering":
        found, wanted = (torch.stack(tuple(pair)) for pair in (theirs(ids)[:2], loaded.model(ids, spans=True)[0]))
    else:
        found = theirs(ids)[0]
        wanted = loaded.model(ids, features_only=loaded.kind == "Model", classification_head_name=loaded.head)[0]
    return ((found - wanted).abs().max() / wanted.abs().max().clamp(min=1)).item()
