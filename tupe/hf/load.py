"""A folder of Transformers back as a checkpoint of fairseq, whether or not it was trained on in the meantime."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tupe.checkpoints.foreign.head import refuse_several_labels, task_of
from tupe.checkpoints.load import write_checkpoint
from tupe.data.windows import SPECIAL
from tupe.hf import configuration_tupe
from tupe.hf.export import WINDOWS, renamed
from tupe.models.checkpoint_config import saved_config
from tupe.models.config import TupeConfig
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeModel, as_namespace
from tupe.tasks.question_answering import TupeQuestionAnsweringConfig
from tupe.util import read_json

_WORDS = "encoder.sentence_encoder.embed_tokens.weight"
_HEAD = "sentence_classification_head"  # fairseq's name


def load(folder: Path) -> tuple[TupeModel, dict[str, Any], list[str]]:
    """Return the model in a folder, its `config.json`, and the parameters that the folder lacks and that are new.

    A folder that a classifier was saved to has no language-model head, and the other way round.
    """
    config = read_json(folder / "config.json")
    configuration_tupe.TupeConfig(**config)  # refuses what this version does not compute
    origin = config.get("fairseq") or {}
    fields = {ours: config[theirs] for ours, theirs in configuration_tupe.NAMES.items() if theirs in config}
    fields |= {name: value for name, value in config.items() if name in TupeConfig.__dataclass_fields__}
    fields["untie_weights_roberta"] = not config.get("tie_word_embeddings", True)
    fields.update(_name=origin.get("model", "tupe_base"), dictionary_sha256=origin.get("dictionary_sha256"))
    head = origin.get("head") or _HEAD
    state = {renamed(key, head, back=True): value.float() for key, value in read_weights(folder).items()}
    if not fields["untie_weights_roberta"]:
        state.setdefault("encoder.lm_head.weight", state[_WORDS])
    args = as_namespace(saved_config({"cfg": {"model": fields}}, folder))
    checksum, args.dictionary_sha256 = args.dictionary_sha256, None  # the folder has no dictionary to compare
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=dictionary_of_size(len(state[_WORDS])))
    model = TupeModel.build_model(args, task)
    model.args.dictionary_sha256 = checksum
    if (out := state.get(f"classification_heads.{head}.out_proj.weight")) is not None:
        model.register_classification_head(head, num_classes=len(out))
    if "span_head.weight" in state:
        model.register_span_head()
    own = {name: tensor for name, tensor in model.state_dict().items() if name.startswith("encoder.lm_head.")}
    model.load_state_dict({**own, **state})
    return model, config, [name for name in own if name not in state]


def named_parts(index: Path) -> list[Path]:
    """Return the files of weights that an index beside them names; a name leads nowhere else."""
    return [index.parent / Path(name).name for name in sorted(set(read_json(index)["weight_map"].values()))]


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the tensors of `model.safetensors`, or of the parts that its index names."""
    from safetensors.torch import load_file

    index = folder / "model.safetensors.index.json"
    tensors: dict[str, Tensor] = {}
    for path in named_parts(index) if index.is_file() else [folder / "model.safetensors"]:
        tensors.update(load_file(path))
    return tensors


def import_transformers(folder: Path, target: Path) -> list[str]:
    """Write the model in `folder` as the checkpoint `target`.

    Returns:
        The parameters that the folder lacked and that are new.
    """
    model, config, missing = load(folder)
    origin, longest = config.get("fairseq") or {}, model.max_positions()
    task = criterion = None
    for head, layers in model.classification_heads.items():
        refuse_several_labels(config.get("problem_type"))
        task, criterion = task_of(head, layers.out_proj.out_features, longest)
    if getattr(model, "span_head", None) is not None:
        criterion = {"_name": "tupe_question_answering"}
        task = {**_question_answering(origin, longest), **criterion}
    write_checkpoint(target, model, model.args._name, task, criterion)
    return missing


def _question_answering(origin: dict[str, Any], max_positions: int) -> dict[str, Any]:
    """Return all fields of the task, so that `tupe predict` and fairseq's overrides can set any of them.

    What the export of `origin` did not say, because the model learnt to answer in Transformers, has the task's default
    or the largest value that windows of `max_positions` have room for.
    """
    default, room = TupeQuestionAnsweringConfig, max(2, max_positions - SPECIAL)
    max_query = min(default.max_query, room // 2)
    windows = {"max_query": max_query, "doc_stride": min(default.doc_stride, room - max_query)}
    windows.update({name: origin[name] for name in WINDOWS if name in origin})
    task = default(data="", max_positions=max_positions, seed=1, **windows)
    return {name: getattr(value, "value", value) for name, value in vars(task).items()}  # an Enum's value
