"""Convert an exported folder back to a checkpoint of fairseq, whether or not Transformers trained it further."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tupe.checkpoints.foreign.head import in_our_order, refuse_several_labels, task_of
from tupe.checkpoints.foreign.names import WORDS
from tupe.checkpoints.foreign.transformers import classes_of
from tupe.checkpoints.load import write_checkpoint
from tupe.hf import configuration_tupe
from tupe.hf.export import WINDOWS, renamed
from tupe.models.config import TupeConfig, named
from tupe.models.heads import has_lm_head
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeModel
from tupe.patches.checkpoints import symbols_sha256
from tupe.patches.safe_load import refuse_removed
from tupe.tasks.question_answering import TupeQuestionAnsweringConfig
from tupe.util import read_json

_HEAD = "sentence_classification_head"  # fairseq's name


def load(folder: Path) -> tuple[TupeModel, dict[str, Any]]:
    """Return the model in a folder, with the heads that are there, and its `config.json`."""
    from safetensors.torch import load_file

    config = read_json(folder / "config.json")
    refuse_removed(config, folder)
    origin = config.get("fairseq") or {}
    fields = {ours: config[theirs] for ours, theirs in configuration_tupe.NAMES.items() if theirs in config}
    fields |= {name: value for name, value in config.items() if name in TupeConfig.__dataclass_fields__}
    fields["untie_weights_roberta"] = not config.get("tie_word_embeddings", True)
    head = origin.get("head") or _HEAD
    tensors = load_file(folder / "model.safetensors")
    prefix = "" if any(key.startswith("tupe.") for key in tensors) else "tupe."  # saved by `AutoModel`
    state = {renamed(prefix + key, head, back=True): value.float() for key, value in tensors.items()}
    task = SimpleNamespace(source_dictionary=dictionary_of_size(len(state[WORDS])))
    model = TupeModel.build_model(named(origin.get("model", "tupe_base"), **fields), task)
    model.args.dictionary_sha256 = origin.get("dictionary_sha256")  # the folder has the checksum, not the dictionary
    if (out := state.get(f"classification_heads.{head}.out_proj.weight")) is not None:
        model.register_classification_head(head, num_classes=len(out))
    if "span_head.weight" in state:
        model.register_span_head()
    if not has_lm_head(state):
        model.encoder.lm_head = None
    elif not fields["untie_weights_roberta"]:
        state.setdefault("encoder.lm_head.weight", state[WORDS])
    model.load_state_dict(state)
    return model, config


def import_folder(folder: Path, target: Path) -> None:
    """Write the model in `folder` as the checkpoint `target`."""
    model, config = load(folder)
    task = criterion = None
    for head, layers in model.classification_heads.items():
        refuse_several_labels(config.get("problem_type"))
        task, criterion = task_of(head, layers.out_proj.out_features, model.max_positions())
        classes, weights = classes_of(configuration_tupe.TupeConfig.from_dict(config)), layers.state_dict()
        if classes and not (config.get("fairseq") or {}).get("head"):  # numbered in Transformers, not by an export
            classes, _ = in_our_order(weights, classes)
            layers.load_state_dict(weights)
        task["labels_sha256"] = symbols_sha256(classes) if classes else None
    if getattr(model, "span_head", None) is not None:
        criterion = {"_name": "tupe_question_answering"}
        windows = {name: value for name, value in (config.get("fairseq") or {}).items() if name in WINDOWS}
        fields = TupeQuestionAnsweringConfig(data="", max_positions=model.max_positions(), seed=1, **windows)
        # all fields, so that `tupe predict` can set any; Enums by their values
        task = {name: getattr(value, "value", value) for name, value in vars(fields).items()} | criterion
    write_checkpoint(target, model, model.args._name, task, criterion)
