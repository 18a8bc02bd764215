"""Plan a pre-training, and tell what its folder depends on."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import DictConfig, OmegaConf

from tupe.cores import available_cores
from tupe.criterions.throughput import training_flops
from tupe.data.binary import check_indexed
from tupe.data.corpus.manifest import NAME, Manifest
from tupe.data.corpus.report import vocabulary_warning
from tupe.data.languages import languages, probabilities
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import refuse_changed_dictionaries
from tupe.fairseq_patches.configuration import nearest_model
from tupe.files import read_text, sha256
from tupe.models.config import CONFIGS
from tupe.models.describe import full_name
from tupe.models.summary import meta_model, size_of
from tupe.models.tupe import as_namespace
from tupe.plan.check import Launch, check
from tupe.plan.disk import disk
from tupe.plan.estimate import hours_by_measurement, hours_by_peak, number_of_updates, short
from tupe.plan.precision import bits_of
from tupe.systems import ELECTRA, SEQ2SEQ_NAMES, system_fields

MADE_BY = "scripts/pretrain.sh"
_PREPARED_BY = "tupe prepare-corpus"
_MANY_EPOCHS = 100
_FEW_TOKENS = 16_000  # a GPU and step
_CORE = 1e11  # operations a second of a core's peak in float32
#: Fields of a model that change its speed and not what it computes.
_SPEED = ("attention_backend", "unpad", "checkpoint_activations", "compile", "dropout", "attention_dropout")
_MULTILINGUAL = "tupe_multilingual_masked_lm"


def plan(cfg: DictConfig, launch: Launch) -> Iterator[str]:
    """Yield the lines of the plan.

    Raises:
        UserError: for a model that does not exist, GPUs or data that are not there, sequences longer than the model's,
            a batch that is not `dataset.batch_size` sequences, a precision that the CPU lacks, a warm-up that is not
            shorter than the run, an unknown kind of GPU, a measurement or a run of something else, and too little disk
            space for the checkpoints.
    """
    if "tokens_per_sample" not in cfg.task:
        raise UserError(
            f"the task {cfg.task._name} is no pre-training and no translation, and a plan is made of these "
            "alone: leave it out, since tupe finetune checks a fine-tuning before it begins"
        )
    length = cfg.task.tokens_per_sample
    check(cfg, launch)
    _check(cfg)
    shards = _shards(cfg)
    symbols, sizes, skipped = _read_data(shards, cfg)
    tokens = sum(sizes.values())
    if skipped.size:
        yield f"warning: {_unused(skipped, tokens, length, launch.max_unused)}"
    fields = {key: value for key, value in cfg.model.items() if key != "_name"}
    fields["max_positions"] = fields["max_positions"] or length
    model = meta_model(cfg.model._name, symbols, **fields)
    size = size_of(model)
    alone = f" ({short(size.generator)} of them of the generator alone)" if size.generator else ""
    shown = full_name(as_namespace(cfg.model))
    yield f"{shown}, {short(size.total)} parameters{alone}, {symbols:,} symbols, on {launch}"

    world, accumulated = launch.nodes * launch.processes, cfg.optimization.update_freq[0]
    batch = world * cfg.dataset.batch_size * accumulated
    epoch = max(1, math.ceil(tokens / len(shards) / (batch * length)))  # updates: an epoch of fairseq is one folder
    updates = number_of_updates(cfg, epoch)
    yield (
        f"{world} x {cfg.dataset.batch_size} sequences x {accumulated} accumulated = {batch} an update, of {length} "
        f"tokens each: {batch * length:,} tokens an update"
    )
    if launch.gpus and cfg.dataset.batch_size * length < _FEW_TOKENS:
        yield f"warning: {_idle(cfg.dataset.batch_size, accumulated, length)}"
    total = updates * batch * length
    times = total / max(tokens, 1)
    yield (
        f"{updates:,} updates: {short(total)} tokens, {times:,.3g} times the training data of "
        f"{short(tokens)} tokens in {len(shards)} folder(s)"
    )
    if cfg.task._name == _MULTILINGUAL:
        yield from _languages(sizes, cfg.task.multilang_sampling_alpha, total)
    predicted = round(batch * length * cfg.task.get("mask_prob", 1.0))
    operations = updates * training_flops(model, batch * length, length, predicted)
    if launch.gpu is not None:
        yield hours_by_peak(launch, operations)
    if launch.measured is not None:
        yield hours_by_measurement(cfg, launch, total)
    cores = available_cores() if launch.here else launch.nodes * launch.processes
    if not launch.gpus and (days := operations / (_CORE * cores) / 86_400) > 7:
        yield (
            f"warning: {days:,.0f} days at least, if {cores} core(s) did {_CORE / 1e9:.0f} GFLOP/s each: take GPUs, or "
            "begin with CONFIG=quickstart MODEL=tupe_a_tiny and task.sample_break_mode=none"
        )
    if launch.probe is not None:
        yield launch.probe.hours(speed_of(cfg), updates * batch, world, launch.gpus)
    yield from vocabulary_warning(symbols, tokens)
    if times > _MANY_EPOCHS:
        yield f"warning: the data are repeated {times:,.0f} times, where BERT and TUPE did some 40: take more text"
    yield disk(cfg, launch, updates, epoch, model)


def made_of(cfg: DictConfig) -> dict[str, Any]:
    """Return what a run's folder depends on (`tupe.files.Owner`): model and data, not how long or where it trains."""
    data = {}
    for number, shard in enumerate(_shards(cfg)):
        known = Manifest.load(shard).content.checksums if (shard / NAME).is_file() else {}
        data[f"folder {number}"] = {"dict.txt": sha256(shard / "dict.txt")[:12]}
        for language in _languages_in(shard, cfg.task):
            name = f"{language}/{cfg.dataset.train_subset}.bin".lstrip("/")
            size = (shard / name).stat().st_size
            data[f"folder {number}"][name] = f"{size:,} bytes {known.get(name, '')[:12]}".rstrip()
    return {"model": model_of(cfg, cfg.task.tokens_per_sample), "data": data}


def model_of(cfg: DictConfig, length: int) -> dict[str, Any]:
    """Return the fields that change what a model's parameters compute.

    The model's name is not among them: a run that resumes may use another name.
    """
    fields = OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True)
    named = system_fields(MODEL_DATACLASS_REGISTRY[cfg.model._name])
    positions = {"max_positions": fields["max_positions"] or length} if "max_positions" in fields else {}
    return {**{name: fields[name] for name in named}, **positions}


def speed_of(cfg: DictConfig) -> dict[str, Any]:
    """Return what the speed of a training on one device depends on, beside the batch."""
    length = cfg.task.tokens_per_sample
    fields = {field: cfg.model[field] for field in _SPEED}
    return {"length": length, "bits": bits_of(cfg), "model": {**model_of(cfg, length), **fields}}


def _shards(cfg: DictConfig) -> list[Path]:
    return [Path(shard) for shard in str(cfg.task.data).split(os.pathsep)]


def validated(cfg: DictConfig) -> list[str]:
    """List the splits that a run validates on; those of one language, `valid_de`, are added by its task."""
    splits = [] if cfg.dataset.disable_validation else cfg.dataset.valid_subset.split(",")
    return [split for split in splits if cfg.task._name != _MULTILINGUAL or "_" not in split]


def _languages_in(shard: Path, task: DictConfig) -> list[str]:
    """List the languages to train on; for `masked_lm` this is `[""]`."""
    return languages(shard, task.langs) if task._name == _MULTILINGUAL else [""]


def _check(cfg: DictConfig) -> None:
    """Raise `UserError` for a model that does not exist, or does not fit its criterion, sequences or batch."""
    model, criterion, length = cfg.model, cfg.criterion._name, cfg.task.tokens_per_sample
    if model._name in SEQ2SEQ_NAMES:
        raise UserError(f"{model._name} is an encoder-decoder: train it by scripts/translate_train.sh.")
    if model._name not in CONFIGS:
        raise UserError(f"there is no model {model._name}{nearest_model(model._name)}: `tupe systems` lists them.")
    if criterion == ("tupe_masked_lm" if model._name.startswith(ELECTRA) else "tupe_electra"):
        raise UserError(
            f"the criterion {criterion} does not train {model._name}: set CONFIG=electra for models that begin with "
            f"{ELECTRA}, and for no other."
        )
    if model.max_positions and length > model.max_positions:
        raise UserError(
            f"sequences of {length} tokens do not fit a model of {model.max_positions} positions: lower "
            "task.tokens_per_sample or raise model.max_positions."
        )
    size, multiple = cfg.dataset.batch_size, cfg.dataset.required_batch_size_multiple
    if size in (None, -1) or cfg.dataset.max_tokens is not None:
        raise UserError("a batch is counted in sequences: set dataset.batch_size, and not dataset.max_tokens.")
    if size > multiple and size % multiple:
        raise UserError(
            f"of dataset.batch_size={size}, fairseq would use {size - size % multiple}: take a multiple of {multiple}, "
            "or set dataset.required_batch_size_multiple=1."
        )


def _read_data(shards: list[Path], cfg: DictConfig) -> tuple[int, dict[str, int], np.ndarray]:
    """Return the numbers of symbols, of training tokens by language, and of tokens in each skipped line.

    fairseq skips lines that, with `<s>`, are longer than `tokens_per_sample`, unless it cuts lines anywhere.
    """
    task, split = cfg.task, cfg.dataset.train_subset
    tokens: dict[str, int] = {}
    skipped = [np.zeros(0, dtype=np.int64)]
    for shard in reversed(shards):  # the symbols are those of the first
        text = read_text(shard / "dict.txt", _PREPARED_BY)
        if not text.strip():
            raise UserError(f"{shard / 'dict.txt'} is empty: give the folder that {_PREPARED_BY} wrote.")
        if (shard / NAME).is_file():
            many = Manifest.load(shard).content.languages  # the dictionary is that of the corpus
            if many and task._name != _MULTILINGUAL:
                raise UserError(
                    f"{shard} has {len(many)} languages: set CONFIG=multilingual, or task._name={_MULTILINGUAL}."
                )
        for language in _languages_in(shard, task):
            check_indexed(shard / language / split, _PREPARED_BY)
            data = MMapIndexedDataset(str(shard / language / split))  # kept: `sizes` is memory that it unmaps
            tokens[language] = tokens.get(language, 0) + int(data.sizes.sum())
            if task.sample_break_mode != "none":
                skipped.append(data.sizes[data.sizes >= task.tokens_per_sample])
    refuse_changed_dictionaries(task)
    for valid in (shards[0] / language / split for language in tokens for split in validated(cfg)):
        if not valid.with_suffix(".bin").is_file():
            raise UserError(f"there is no {valid}.bin: the first folder holds the validation data.")
        check_indexed(valid, _PREPARED_BY)
    return text.count("\n") + 5, tokens, np.concatenate(skipped)  # <s>, <pad>, </s>, <unk>, and the task's <mask>


def _unused(skipped: np.ndarray, tokens: int, length: int, most: float) -> str:
    """Say how many of `tokens` are in lines that fairseq skips, whose lengths are `skipped`.

    Raises:
        UserError: if their share is above `most`.
    """
    number = int(skipped.sum())
    lost = (
        f"{number:,} of {tokens:,} tokens ({number / tokens:.2%}) would never be used, because fairseq "
        f"skips lines that do not fit into task.tokens_per_sample={length} (the longest needs {skipped.max() + 1})"
    )
    if number > most * tokens:
        shorter = f"prepare the data with --max-tokens {length - 2}, " if length > 2 else ""
        raise UserError(
            f"{lost}: raise task.tokens_per_sample, set task.sample_break_mode=none, which cuts lines, {shorter}"
            f"or accept it by --max-unused (MAX_UNUSED of the script)"
        )
    return lost


def _idle(batch_size: int, accumulated: int, length: int) -> str:
    """Say that a step's tokens are too few to keep a GPU busy, and what helps: a larger step, or fewer GPUs."""
    if accumulated > 1:
        most = batch_size * accumulated  # sequences of an update that a GPU computes
        sizes = (size for size in range(8, most, 8) if most % size == 0 and size * length >= _FEW_TOKENS)
        helps = f"set BATCH_PER_GPU (dataset.batch_size) to {next(sizes, most)}, or what its memory holds"
    else:
        helps = "take fewer GPUs, with a larger BATCH_PER_GPU (dataset.batch_size), or a larger batch"
    few = f"{batch_size * length:,} tokens a GPU and step are below {_FEW_TOKENS:,}"
    return f"{few}, which leaves much of a GPU idle: {helps}"


def _languages(sizes: dict[str, int], alpha: float, total: int) -> Iterator[str]:
    """Say how often the most and the least frequent language is drawn, and how often each of its tokens is seen."""
    drawn = dict(zip(sizes, probabilities(list(sizes.values()), alpha).tolist()))
    times = {language: total * drawn[language] / sizes[language] for language in sizes}
    most, least = max(drawn, key=drawn.get), min(drawn, key=drawn.get)
    yield f"{len(sizes)} languages, drawn by size^{alpha:g}: " + " to ".join(
        f"{language} {drawn[language]:.2%} ({short(sizes[language])} tokens, {times[language]:,.3g} times)"
        for language in (most, least)
    )
    often = [language for language in sizes if times[language] > _MANY_EPOCHS]
    if often:
        yield (
            f"warning: {len(often)} languages are repeated more than {_MANY_EPOCHS} times, "
            f"{max(often, key=times.get)} the most: take more text, or a larger exponent"
        )
