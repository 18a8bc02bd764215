"""Plan a pre-training, or the training of a translation model."""

import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from torch import nn

from tupe.cli.launch import Training
from tupe.data.languages import languages
from tupe.models.describe import full_name
from tupe.models.summary import meta_model, size_of, training_flops
from tupe.models.tupe import architecture, as_namespace

#: Dense operations a second of a GPU in 16 bits, in units of 1e12, as its maker publishes them.
TERAFLOPS = {"v100": 125, "a100": 312, "h100": 989, "h200": 989, "b200": 2250}
_SPECIAL = 4  # symbols that a dictionary has beside those of its file: <s>, <pad>, </s> and <unk>


def read_config(folder: Path, name: str, overrides: list[str]) -> DictConfig:
    """Compose a configuration as `fairseq-hydra-train` does: `name` in `folder`, `key=value`, and all defaults."""
    hydra_init(name)
    with warnings.catch_warnings(), initialize_config_dir(config_dir=str(folder.resolve()), version_base="1.1"):
        warnings.simplefilter("ignore")  # Hydra deprecates a file with the name of fairseq's schema
        cfg = compose(config_name=name, overrides=overrides)
        add_defaults(cfg)
        architecture(cfg.model, cfg.model._name)
    return cfg


def lines(training: Training, gpu: str | None = None, mfu: float = 0.4) -> Iterator[str]:
    """Yield the lines of the plan of a training.

    Args:
        gpu: a key of `TERAFLOPS`, to estimate hours.
        mfu: fraction of the GPUs' peak that is used.
    """
    cfg = read_config(training.config.parent, training.config.stem, training.settings)
    world = training.nodes * training.processes
    if cfg.task._name == "translation":
        yield from _translation(cfg, world)
    else:
        yield from _pretraining(cfg, world, gpu, mfu)


def short(number: float) -> str:
    """Write a number with at most three significant digits: 110M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:  # 999,900 is 1M, not 1e+03k
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"


def _pretraining(cfg: DictConfig, world: int, gpu: str | None, mfu: float) -> Iterator[str]:
    task, split = cfg.task, cfg.dataset.train_subset
    length, folders = task.tokens_per_sample, [Path(folder) for folder in task.data.split(os.pathsep)]
    fields = {name: value for name, value in cfg.model.items() if name != "_name"}
    fields["max_positions"] = fields["max_positions"] or length
    symbols = _symbols(folders[0] / "dict.txt") + 1  # <mask>
    model = meta_model(cfg.model._name, symbols, **fields)
    yield _model(cfg, model, symbols)

    many = task._name == "tupe_multilingual_masked_lm"
    parts = [folder / part for folder in folders for part in (languages(folder, task.langs) if many else [""])]
    tokens = sum(_tokens(part / split) for part in parts)
    batch, said = _batch(cfg, world, cfg.dataset.batch_size)
    yield f"{said} sequences an update, of {length} tokens each: {batch * length:,} tokens an update"
    # an epoch of fairseq is one folder
    updates = _updates(cfg, max(1, math.ceil(tokens / len(folders) / (batch * length))))
    total = updates * batch * length
    yield (
        f"{updates:,} updates: {short(total)} tokens, {total / tokens:,.3g} times the training data of "
        f"{short(tokens)} tokens in {len(folders)} folder(s)"
    )
    predicted = round(batch * length * task.get("mask_prob", 1.0))
    flops = updates * training_flops(model, batch * length, length, predicted)
    yield f"{short(flops)} floating-point operations"
    if gpu:
        peak = TERAFLOPS[gpu]
        hours = flops / (world * 1e12 * peak * mfu) / 3600
        yield (
            f"{hours:,.3g} hours on {world} {gpu.upper()} at {mfu:.0%} of {peak} TFLOP/s each, "
            f"{world * hours:,.3g} GPU-hours"
        )


def _translation(cfg: DictConfig, world: int) -> Iterator[str]:
    task, pair = cfg.task, f"{cfg.task.source_lang}-{cfg.task.target_lang}"
    fields = {name: value for name, value in cfg.model.items() if name != "_name"}
    symbols = _symbols(Path(task.data, f"dict.{task.source_lang}.txt"))
    longest = max(task.max_source_positions, task.max_target_positions)
    yield _model(cfg, meta_model(cfg.model._name, symbols, longest, **fields), symbols)

    train = f"{cfg.dataset.train_subset}.{pair}"
    tokens = max(_tokens(Path(task.data, f"{train}.{side}")) for side in (task.source_lang, task.target_lang))
    batch, said = _batch(cfg, world, cfg.dataset.max_tokens)
    yield f"{said} source or target tokens an update, at most"
    epoch = math.ceil(tokens / batch)
    updates = _updates(cfg, epoch)
    yield f"{updates:,} updates: at most {updates / epoch:,.3g} times {short(tokens)} tokens of the longer side"


def _symbols(path: Path) -> int:
    return _SPECIAL + len(path.read_text(encoding="utf-8").splitlines())


def _model(cfg: DictConfig, model: nn.Module, symbols: int) -> str:
    return f"{full_name(as_namespace(cfg.model))}, {short(size_of(model).total)} parameters, {symbols:,} symbols"


def _tokens(prefix: Path) -> int:
    data = MMapIndexedDataset(str(prefix))  # kept: `sizes` is memory that it unmaps
    return int(data.sizes.sum())


def _batch(cfg: DictConfig, world: int, each: int) -> tuple[int, str]:
    """Return the size of an update's batch, and its factors; `each` is a process's part of a step."""
    accumulated = cfg.optimization.update_freq[0]
    batch = world * each * accumulated
    return batch, f"{world} processes x {each:,} x {accumulated} accumulated = {batch:,}"


def _updates(cfg: DictConfig, epoch: int) -> int:
    """Return the number of updates of a run whose epochs have `epoch` updates."""
    most, epochs = cfg.optimization.max_update, cfg.optimization.max_epoch
    return min(most if most > 0 else math.inf, epoch * epochs if epochs > 0 else math.inf)
