"""Print the plan of a pre-training before it begins, and refuse what cannot work."""

import math
import os
import re
import shutil
import warnings
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.models import MODEL_DATACLASS_REGISTRY
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import nn
from yaml import YAMLError

from tupe.criterions.throughput import KNOWN_DEVICES, peak_flops, training_flops
from tupe.data.binary import check_indexed
from tupe.data.corpus.manifest import NAME, Manifest
from tupe.data.corpus.report import vocabulary_warning
from tupe.data.languages import languages, probabilities
from tupe.errors import UserError
from tupe.fairseq_patches.configuration import refuse_outputs, refuse_unknown_keys
from tupe.fairseq_patches.ranges import refuse_out_of_range
from tupe.files import read_text, sha256
from tupe.models.config import CONFIGS
from tupe.models.describe import full_name
from tupe.models.summary import meta_model, without_generator
from tupe.models.tupe import as_namespace
from tupe.systems import ELECTRA, named_electras, named_models, system_fields

_PREPARED_BY = "tupe prepare-corpus"
_MANY_EPOCHS = 100
_BY_NAME = ("model", "task", "criterion", "optimizer", "lr_scheduler")  # of which Hydra knows what the file names
_MULTILINGUAL = "tupe_multilingual_masked_lm"
_BYTES_OF_A_TENSOR = 400  # beside its numbers: names, alignment and directory of the zip
_BYTES_OF_A_CHECKPOINT = 20_000  # beside its tensors: configuration and meters
_HALVES = ("fp16", "bf16", "memory_efficient_fp16", "memory_efficient_bf16", "amp")


def read_config(folder: Path, name: str, overrides: list[str]) -> DictConfig:
    """The configuration as `fairseq-hydra-train` composes it, with fairseq's defaults.

    Raises:
        UserError: for a file, key or value that cannot be.
    """
    if not (folder / f"{name}.yaml").is_file():  # Hydra would compose fairseq's empty schema
        raise UserError(f"there is no {folder / name}.yaml: give the folder and the name of a configuration.")
    hydra_init(name)
    try:
        overrides = with_pluses(overrides, folder, name)
        with warnings.catch_warnings(), initialize_config_dir(config_dir=str(folder.resolve()), version_base="1.1"):
            warnings.simplefilter("ignore")  # fairseq's schema has the name of the file, which Hydra 1.1 deprecates
            cfg = compose(config_name=name, overrides=overrides)
        add_defaults(cfg)
    except UserError:
        raise
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:  # a group that is a number
        for override in overrides:
            if not override.startswith("~"):  # which has no value
                _refuse_override(override)
        reason = re.split(r"\s(?:To append|Either remove|See https)", str(error))[0]  # without Hydra's advice
        raise UserError(f"the configuration {name} cannot be made: {' '.join(reason.split())}") from None
    return cfg


def _refuse_override(override: str) -> None:
    """Raise a `UserError` for `GROUP.FIELD=VALUE` with a group, field or value that fairseq does not have."""
    key, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"'{override}' is no setting: give key=value, as optimization.max_update=1000.")
    try:
        asked = OmegaConf.to_container(OmegaConf.from_dotlist([f"{key.lstrip('+')}={value}"]))
    except (OmegaConfBaseException, YAMLError):
        raise UserError(f"{key} cannot be {value!r:.60}: quote it, or write a list as [1,2].") from None
    refuse_unknown_keys({group: part for group, part in asked.items() if group != "hydra"})


def with_pluses(arguments: list[str], folder: Path, name: str) -> list[str]:
    """`plus` on each of the arguments, of the configuration `name` in `folder`."""
    named = OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml"))  # of a DictConfig, what is ??? is not there
    return [plus(argument, named) for argument in arguments]


def plus(override: str, named: Mapping[str, Container[str]]) -> str:
    """Write `model.FIELD=VALUE` as Hydra wants it: with a plus where the file's group does not name the field."""
    key, equals, value = override.partition("=")
    bare = key.lstrip("+")
    group, _, field = bare.partition(".")
    if group not in _BY_NAME or not field or not equals or key.startswith("++"):
        return override
    return f"{'' if field.partition('.')[0] in (named.get(group) or ()) else '+'}{bare}={value}"


@dataclass(frozen=True)
class Launch:
    """Where a run takes place."""

    nodes: int  # machines
    processes: int  # on each machine
    gpus: int  # on each machine; 0 for the CPU
    here: bool = True  # whether it starts on this machine, whose GPUs and disk must then do
    gpu: str | None = None  # of which kind they are, as `h100`, if the plan is to say hours
    mfu: float = 0.4  # share of their peak that training uses
    # what `tupe.analysis.cost.read_costs` returns, if the plan is to say hours by it
    measured: tuple[str, list[dict[str, Any]]] | None = None
    max_unused: float = 0.01  # share of the tokens that may be in lines too long to be used

    def __str__(self) -> str:
        return f"{self.nodes} node(s) x {self.processes} process(es), {self.gpus} GPU(s) a node"


def plan(cfg: DictConfig, launch: Launch) -> Iterator[str]:
    """Yields the lines of the plan.

    Raises:
        UserError: for a model that does not exist, GPUs or data that are not there, sequences longer than the model's,
            a batch that is not `dataset.batch_size` sequences, a precision that the CPU has not, a warm-up that is not
            shorter than the run, an unknown kind of GPU, a measurement of something else, and too little disk space for
            the checkpoints.
    """
    name, length = cfg.model._name, cfg.task.tokens_per_sample
    _check(cfg, launch)
    shards = _shards(cfg)
    symbols, sizes, unused = _read_data(shards, cfg.task)
    tokens = sum(sizes.values())
    yield from unused.said(tokens, length, launch.max_unused)
    fields = {key: value for key, value in cfg.model.items() if key != "_name"}
    fields["max_positions"] = fields["max_positions"] or length
    model = meta_model(name, symbols, **fields)
    parameters = sum(p.numel() for p in model.parameters())
    generator = parameters - without_generator(model)
    alone = f" ({short(generator)} of them of the generator alone)" if generator else ""
    shown = full_name(as_namespace(cfg.model))
    yield f"{shown}, {short(parameters)} parameters{alone}, {symbols:,} symbols, on {launch}"

    world, accumulated = launch.nodes * launch.processes, cfg.optimization.update_freq[0]
    batch = world * cfg.dataset.batch_size * accumulated
    epoch = max(1, math.ceil(tokens / len(shards) / (batch * length)))  # updates: an epoch of fairseq is one folder
    updates = number_of_updates(cfg, epoch)
    yield (
        f"{world} x {cfg.dataset.batch_size} sequences x {accumulated} accumulated = {batch} an update, of {length} "
        f"tokens each: {batch * length:,} tokens an update"
    )
    total = updates * batch * length
    times = total / max(tokens, 1)
    yield (
        f"{updates:,} updates: {short(total)} tokens, {times:,.3g} times the training data of "
        f"{short(tokens)} tokens in {len(shards)} folder(s)"
    )
    if cfg.task._name == _MULTILINGUAL:
        yield from _languages(sizes, cfg.task.multilang_sampling_alpha, total)
    if launch.gpu is not None:
        yield _hours(launch, updates * training_flops(model, batch * length, length, _predicted(cfg, batch * length)))
    if launch.measured is not None:
        yield _measured_hours(cfg, launch, total)
    check_warmup(cfg, updates)
    yield from vocabulary_warning(symbols, tokens)
    if times > _MANY_EPOCHS:
        yield f"warning: the data are repeated {times:,.0f} times, where BERT and TUPE did some 40: take more text"
    yield disk(cfg, launch, updates, epoch, model)


def made_of(cfg: DictConfig) -> dict[str, Any]:
    """Return what a run's folder depends on (`tupe.files.own`): model and data, not how long or where it trains."""
    data = {}
    for number, shard in enumerate(_shards(cfg)):
        known = Manifest.load(shard).content.checksums if (shard / NAME).is_file() else {}
        data[f"folder {number}"] = {"dict.txt": sha256(shard / "dict.txt")[:12]}
        for name in (f"{language}/train.bin".lstrip("/") for language in _languages_in(shard, cfg.task)):
            size = (shard / name).stat().st_size
            data[f"folder {number}"][name] = f"{size:,} bytes {known.get(name, '')[:12]}".rstrip()
    return {"model": model_of(cfg, cfg.task.tokens_per_sample), "data": data}


def model_of(cfg: DictConfig, length: int) -> dict[str, Any]:
    """The fields that change what a model's parameters compute; its name may differ, as in a run that resumes."""
    fields = OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True)
    named = system_fields(MODEL_DATACLASS_REGISTRY[cfg.model._name])
    positions = {"max_positions": fields["max_positions"] or length} if "max_positions" in fields else {}
    return {**{name: fields[name] for name in named}, **positions}


def _shards(cfg: DictConfig) -> list[Path]:
    return [Path(shard) for shard in str(cfg.task.data).split(os.pathsep)]


def _languages_in(shard: Path, task: DictConfig) -> list[str]:
    """The languages to train on; the only one of `masked_lm` is called ""."""
    return languages(shard, task.langs) if task._name == _MULTILINGUAL else [""]


def _check(cfg: DictConfig, launch: Launch) -> None:
    refuse_out_of_range(cfg)
    check_machine(cfg, launch)
    model = cfg.model
    if model._name not in CONFIGS:
        raise UserError(f"there is no model {model._name}: `tupe systems` lists them.")
    criterion, generates = cfg.criterion._name, model._name.startswith(ELECTRA)
    if criterion == ("tupe_masked_lm" if generates else "tupe_electra"):
        raise UserError(
            f"the criterion {criterion} does not train {model._name}: set CONFIG=electra for models that begin with "
            f"{ELECTRA}, and for no other."
        )
    positions = model.max_positions or cfg.task.tokens_per_sample
    if cfg.task.tokens_per_sample > positions:
        raise UserError(
            f"sequences of {cfg.task.tokens_per_sample} tokens do not fit a model of {positions} positions: lower "
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


def check_machine(cfg: DictConfig, launch: Launch) -> None:
    """Raises a `UserError` for GPUs that are not there, a precision that the CPU has not, and outputs that spoil."""
    refuse_outputs(cfg)
    if min(launch.nodes, launch.processes) < 1 or launch.gpus < 0:
        raise UserError(f"{launch} cannot be: give numbers above 0; only GPUs may be 0.")
    if launch.here and launch.gpus > torch.cuda.device_count():
        raise UserError(
            f"{launch.gpus} GPU(s) are asked for, but PyTorch {torch.__version__} sees {torch.cuda.device_count()}: "
            "set GPUS, look at nvidia-smi and CUDA_VISIBLE_DEVICES, and install a PyTorch with CUDA."
        )
    if launch.here and launch.gpus == 0 and cfg.common.fp16 and not cfg.common.memory_efficient_fp16:
        raise UserError("the CPU does not train with common.fp16=true: leave it out, or set common.bf16=true.")


@dataclass
class _Unused:
    """Tokens in lines that fairseq skips, because they are longer than a block."""

    tokens: int = 0
    longest: int = 0  # tokens of the longest line, `</s>` included

    def add(self, sizes: np.ndarray, task: DictConfig) -> None:
        """Count the lines of `sizes` tokens that, with `<s>`, are longer than `tokens_per_sample`."""
        if task.sample_break_mode != "none":  # which cuts lines anywhere
            skipped = sizes[sizes >= task.tokens_per_sample]
            self.tokens += int(skipped.sum())
            self.longest = max(self.longest, int(skipped.max(initial=0)))

    def said(self, tokens: int, length: int, most: float) -> Iterator[str]:
        """Yield a line about them, if there are any. Raise a `UserError` if their share is above `most`."""
        if not self.tokens:
            return
        lost = (
            f"{self.tokens:,} of {tokens:,} tokens ({self.tokens / tokens:.2%}) would never be used, because fairseq "
            f"skips lines that do not fit into task.tokens_per_sample={length} (the longest needs {self.longest + 1})"
        )
        if self.tokens > most * tokens:
            raise UserError(
                f"{lost}: raise task.tokens_per_sample, set task.sample_break_mode=none, which cuts lines, prepare "
                f"the data with --max-tokens {length - 2}, or accept it by --max-unused (MAX_UNUSED of the script)"
            )
        yield f"warning: {lost}"


def _read_data(shards: list[Path], task: DictConfig) -> tuple[int, dict[str, int], _Unused]:
    """The number of symbols, and of tokens to train on by language, and of those that would not be used."""
    tokens: dict[str, int] = {}
    unused = _Unused()
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
            check_indexed(shard / language / "train", _PREPARED_BY)
            data = MMapIndexedDataset(str(shard / language / "train"))  # kept: `sizes` is memory that it unmaps
            tokens[language] = tokens.get(language, 0) + int(data.sizes.sum())
            unused.add(data.sizes, task)
    for language in tokens:
        valid = shards[0] / language / "valid"
        if not valid.with_suffix(".bin").is_file():
            raise UserError(f"there is no {valid}.bin: the first folder holds the validation data.")
        check_indexed(valid, _PREPARED_BY)
    return text.count("\n") + 5, tokens, unused  # <s>, <pad>, </s>, <unk>, and <mask>, which the task adds


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


def _predicted(cfg: DictConfig, tokens: int) -> int:
    return round(tokens * cfg.task.get("mask_prob", 1.0))


def _hours(launch: Launch, flops: int) -> str:
    """Say how long `flops` operations take."""
    peak = peak_flops(launch.gpu.upper())
    if peak is None:
        raise UserError(f"the peak of a {launch.gpu} is not known: give --gpu one of {', '.join(KNOWN_DEVICES)}.")
    if not 0 < launch.mfu <= 1:
        raise UserError(f"--mfu is {launch.mfu}, but a share of the peak is above 0 and at most 1.")
    gpus = launch.nodes * launch.gpus
    if gpus == 0:
        raise UserError("hours are those of GPUs: say how many by --gpus.")
    hours = flops / (gpus * peak * launch.mfu) / 3600
    return (
        f"{hours:,.3g} hours on {gpus} {launch.gpu.upper()} at {launch.mfu:.0%} of their {peak / 1e12:.0f} TFLOP/s "
        f"each in 16 bits, {gpus * hours:,.3g} GPU-hours"
    )


def _measured_hours(cfg: DictConfig, launch: Launch, tokens: int) -> str:
    """Say how long `tokens` take at the speed that was measured."""
    conditions, records = launch.measured
    args, length, compiled = as_namespace(cfg.model), cfg.task.tokens_per_sample, "_compiled" * cfg.model.compile
    rows = named_electras() if args._name.startswith(ELECTRA) else named_models()
    same = [name.rpartition("_") for name, row in rows.items() if row.items() <= vars(args).items()]  # aliases too
    wanted = [("training", f"{system}{compiled}", size) for system, _, size in same]
    found = [record for record in records if (record["mode"], record["rival"], record["size"]) in wanted]
    bits = 16 if any(cfg.common[half] for half in _HALVES) else 32
    if not found or f" of {length} tokens, " not in conditions or (", float32, " in conditions) != (bits == 32):
        raise UserError(
            f"--measured has no training of {full_name(args)}{compiled and ' --compile'} in {bits} bits and sequences "
            f"of {length}: benchmarks/model.py does what `tupe systems` lists, by --rivals, --sizes, --length, --dtype."
        )
    speed, devices = found[0]["tokens_per_second"], launch.nodes * (launch.gpus or launch.processes)
    return (
        f"{tokens / (devices * speed) / 3600:,.3g} hours on {devices} {'GPU(s)' if launch.gpus else 'process(es)'}, "
        f"if each does the {speed:,.0f} tokens a second that were measured: {conditions}"
    )


def check_warmup(cfg: DictConfig, updates: int) -> None:
    """Raises a `UserError` for a warm-up that is not shorter than the run."""
    warmup = cfg.lr_scheduler.get("warmup_updates", 0)
    if warmup >= updates:
        raise UserError(
            f"the warm-up of {warmup:,} updates is not shorter than the run of {updates:,}: lower "
            "lr_scheduler.warmup_updates or train longer."
        )


def number_of_updates(cfg: DictConfig, epoch: int) -> int:
    """Return the number of updates of the run, if an epoch has `epoch`."""
    most, epochs = cfg.optimization.max_update, cfg.optimization.max_epoch
    by_epochs = epoch * epochs if epochs > 0 else math.inf
    updates = min(most if most > 0 else math.inf, by_epochs)
    if updates == math.inf:
        raise UserError("the run has no end: set optimization.max_update or optimization.max_epoch.")
    return int(updates)


def disk(cfg: DictConfig, launch: Launch, updates: int, epoch: int, model: nn.Module) -> str:
    """Say what the checkpoints of `model` need, at the moment when they need the most.

    Raises:
        UserError: if there is too little space.
    """
    checkpoint, size = cfg.checkpoint, checkpoint_size(cfg, model)
    pattern, keep = checkpoint.keep_interval_updates_pattern, checkpoint.keep_interval_updates
    number = 3  # the last, the best, and the copy that takes the place of one of them
    by_updates = updates // checkpoint.save_interval_updates if checkpoint.save_interval_updates > 0 else 0
    by_epochs = 0 if checkpoint.no_epoch_checkpoints else updates // epoch // checkpoint.save_interval
    limits = (by_updates, keep), (by_epochs, checkpoint.keep_last_epochs)
    number += sum(_kept(*limit) for limit in limits)
    number += any(_kept(*limit) < limit[0] for limit in limits)  # the newest, before the oldest is removed
    number += max(checkpoint.keep_best_checkpoints, 0)
    if pattern > 0 and keep > 0:
        number += updates // pattern
    folder = Path(checkpoint.save_dir)
    there = sum(path.stat().st_size for path in folder.glob("checkpoint*.pt"))
    exists = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(exists).free
    if launch.here and number * size > free + there:
        raise UserError(
            f"{number} checkpoints of {_bytes(size)} need {_bytes(number * size)}, but {exists} has "
            f"{_bytes(free)} free: set checkpoint.save_dir to another disk, or keep fewer "
            "(checkpoint.keep_interval_updates, checkpoint.keep_interval_updates_pattern, checkpoint.keep_last_epochs)."
        )
    line = f"checkpoints in {folder}: at most {number} of {_bytes(size)}, {_bytes(number * size)}"
    return f"{line}; {_bytes(free)} free" if launch.here else line


def checkpoint_size(cfg: DictConfig, model: nn.Module) -> int:
    """Bytes of a checkpoint of `model` (upper bound) with its optimizer's state."""
    rounded = any(cfg.common[half] and not cfg.common[f"memory_efficient_{half}"] for half in ("fp16", "bf16"))
    state = 16 if rounded else 12  # bytes: a parameter, Adam's two moments, and the parameter before it was rounded
    shapes = [p.numel() for p in model.parameters()]
    return sum(shapes) * state + len(shapes) * 3 * _BYTES_OF_A_TENSOR + _BYTES_OF_A_CHECKPOINT


def _kept(written: int, keep: int) -> int:
    return min(written, keep) if keep > 0 else written  # as fairseq: -1 and 0 keep all


def short(number: float) -> str:
    """At most three significant digits: 110M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:  # 999,900 is 1M, not 1e+03k
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"


def _bytes(size: float) -> str:
    return f"{short(size)}B"
