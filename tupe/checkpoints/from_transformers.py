"""A folder of Transformers back as a checkpoint of fairseq, whether or not it was trained on in the meantime."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tupe.checkpoints.fairseq_checkpoint import fill, write_checkpoint
from tupe.checkpoints.foreign.head import task_of
from tupe.checkpoints.transformers_format import CHECKSUM, OUTPUT_EMBEDDINGS, WINDOWS, checksum, model_fields, to_ours
from tupe.data.qa.dataset import SPECIAL
from tupe.errors import UserError, needing
from tupe.files import check_file, read, read_json, typed
from tupe.models.checkpoint_config import saved_config
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeModel, as_namespace
from tupe.tasks.question_answering import TupeQuestionAnsweringConfig
from tupe.tasks.token_classification import TupeTokenClassificationConfig

_MADE_BY = "`tupe export`"
_WORDS = "encoder.sentence_encoder.embed_tokens.weight"
_HEAD = "sentence_classification_head"  # fairseq's name
_HEADS = "classification_heads."
_SPECIAL = {"pad_token_id": 1, "eos_token_id": 2}  # fairseq's numbers, of what the model reads


def load(folder: Path) -> tuple[TupeModel, dict[str, Any], list[str]]:
    """Return the model in a folder, its `config.json`, and the parameters that the folder lacks and that are new.

    A folder that a classifier was saved to has no language-model head, and the other way round.

    Raises:
        UserError: if there is no such folder, its model is none of ours, or its parts do not fit.
    """
    path = folder / "config.json"
    config = read_json(path, _MADE_BY)
    if not isinstance(config, dict) or config.get("model_type") != "tupe":
        raise UserError(f"{path} is not of a model of the TUPE family (model_type): give a folder of {_MADE_BY}")
    fields = model_fields(config)
    fields["untie_weights_roberta"] = not config.get("tie_word_embeddings", True)
    origin = _origin(config)
    fields.update(_name=origin.get("model", "tupe_base"), dictionary_sha256=origin.get("dictionary_sha256"))
    head = typed(str | None, origin.get("head"), f"{path}: fairseq.head", _MADE_BY) or _HEAD
    weights = {to_ours(key, head): value for key, value in read_weights(folder).items()}
    state = {key: value.float() if value.is_floating_point() else value for key, value in weights.items()}
    if _WORDS not in state:
        raise UserError(f"{folder}/model.safetensors has no {_WORDS}: give a folder of {_MADE_BY}")
    checked = saved_config({"cfg": {"model": fields}, "model": state}, path)
    args = as_namespace(checked)
    symbols = len(state[_WORDS])
    for field, number in {"vocab_size": symbols, **_SPECIAL}.items():
        if config.get(field, number) not in (number, [number]):
            raise UserError(
                f"{path} has {field}={config[field]!r:.40}, but its model {number}: give files that belong together"
            )
    if origin.get("symbols", symbols) != symbols:
        raise UserError(
            f"the model in {folder} has {symbols} symbols, but was exported with {origin['symbols']}: fairseq has no "
            "dictionary for symbols that were added since"
        )
    if not fields["untie_weights_roberta"]:
        state.setdefault(OUTPUT_EMBEDDINGS, state[_WORDS])
    task = SimpleNamespace(source_dictionary=dictionary_of_size(symbols))
    torch.manual_seed(1)
    args.dictionary_sha256 = None  # the folder has no dictionary to compare
    model = TupeModel.build_model(args, task)
    model.args.dictionary_sha256 = checked.dictionary_sha256
    out = state.get(f"classification_heads.{head}.out_proj.weight")
    if out is not None:
        try:
            model.register_classification_head(head, num_classes=len(torch.atleast_1d(out)))
        except UserError as error:
            raise UserError(f"{path} names the head {head!r:.60}, but {error}; take a folder of {_MADE_BY}") from None
    shapes = [{key: t.shape for key, t in each.items() if _HEADS in key} for each in (state, model.state_dict())]
    if shapes[0] != shapes[1]:
        raise UserError(
            f"{path} does not describe the head in {folder}/model.safetensors: give files that belong together"
        )
    if "span_head.weight" in state:
        model.register_span_head()
    if "token_head.weight" in state:
        model.register_token_head(len(torch.atleast_1d(state["token_head.weight"])))
    return model, config, fill(model, state, folder / "model.safetensors", may_lack="encoder.lm_head.")


def named_parts(index: Path, made_by: str) -> list[Path]:
    """Return the files of weights that an index beside them names; a name leads nowhere else."""
    content = read(index, dict[str, Any], made_by)
    parts = typed(dict[str, str], content.get("weight_map"), f"{index}: weight_map", made_by)
    return [index.parent / Path(name).name for name in sorted(set(parts.values()))]


def read_weights(folder: Path, made_by: str = _MADE_BY) -> dict[str, Tensor]:
    """Read the tensors of `model.safetensors`, or of the parts that its index names, which `made_by` wrote.

    Raises:
        UserError: if a file is missing or damaged. What `tupe export` wrote carries its checksum (`CHECKSUM`); what
            Transformers saved since does not, and is taken as it is.
    """
    with needing("an import", "transformers"):
        from safetensors import SafetensorError, safe_open
    index = folder / "model.safetensors.index.json"
    tensors: dict[str, Tensor] = {}
    for path in named_parts(index, made_by) if index.is_file() else [folder / "model.safetensors"]:
        check_file(path, made_by)
        try:
            with safe_open(path, framework="pt") as file:
                written = (file.metadata() or {}).get(CHECKSUM)
                part = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  no mapping
        except SafetensorError as error:
            raise UserError(
                f"{path} is damaged or no safetensors file ({error}): copy it again, by `git lfs pull` in a clone"
            ) from None
        if written not in (None, checksum(part)):
            raise UserError(
                f"{path} is damaged: its weights are not those that {_MADE_BY} wrote (its checksum differs), so copy "
                "it again or export the model again"
            )
        tensors.update(part)
    return tensors


def import_transformers(folder: Path, target: Path) -> list[str]:
    """Write the model in `folder` as the checkpoint `target`; `load` says what it raises.

    Returns:
        The parameters that the folder lacked and that are new.
    """
    model, config, missing = load(folder)
    task = criterion = None
    for head, layers in model.classification_heads.items():
        multi_label = config.get("problem_type") == "multi_label_classification"
        task, criterion = task_of(head, layers.out_proj.out_features, model.max_positions(), multi_label)
    if getattr(model, "span_head", None) is not None:
        criterion = {"_name": "tupe_question_answering"}
        task = {**_question_answering(config, model.max_positions(), f"{folder}/config.json: fairseq"), **criterion}
    if getattr(model, "token_head", None) is not None:
        criterion = {"_name": "tupe_token_classification"}
        number = model.token_head.out_features
        stride = doc_stride(config, f"{folder}/config.json")
        windows = {"max_positions": model.max_positions(), "doc_stride": stride}
        task = {**vars(TupeTokenClassificationConfig(data="", num_classes=number, **windows, seed=1)), **criterion}
    write_checkpoint(target, model, model.args._name, task, criterion)
    return missing


def _origin(config: dict[str, Any]) -> dict[str, Any]:
    """Return what an export says of the checkpoint that it was made of."""
    return config["fairseq"] if isinstance(config.get("fairseq"), dict) else {}


def doc_stride(config: dict[str, Any], where: str) -> int | None:
    """Return the tokens from window to window of a model of words, if the configuration that was exported has them."""
    return typed(int | None, _origin(config).get("doc_stride"), f"{where}: fairseq.doc_stride", _MADE_BY)


def _question_answering(config: dict[str, Any], max_positions: int, where: str) -> dict[str, Any]:
    """Return all fields of the task, so that `tupe predict` and fairseq's overrides can set any of them.

    What `config.json` lacks, because the model learnt to answer in Transformers, has the task's default or the largest
    value that windows of `max_positions` have room for.
    """
    origin = _origin(config)
    default, room = TupeQuestionAnsweringConfig, max(2, max_positions - SPECIAL)
    max_query = min(default.max_query, room // 2)
    windows = {"max_query": max_query, "doc_stride": min(default.doc_stride, room - max_query)}
    windows.update({name: typed(int, origin[name], f"{where}.{name}", _MADE_BY) for name in WINDOWS if name in origin})
    task = default(data="", max_positions=max_positions, seed=1, **windows)
    return {name: getattr(value, "value", value) for name, value in vars(task).items()}  # an Enum's value
