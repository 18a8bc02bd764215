"""Plan and run a pre-training, or the training of a translation model."""

import functools
import math
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from tqdm import tqdm

from tupe.cli.launch import Training, training_of
from tupe.data.languages import languages
from tupe.models.describe import full_name
from tupe.models.summary import meta_model, size_of, training_flops
from tupe.models.tupe import architecture, as_namespace

#: GPU -> its peak of dense 16-bit operations per second, in units of 1e12, as its maker publishes it.
TERAFLOPS = {"v100": 125, "a100": 312, "h100": 989, "h200": 989, "b200": 2250}


@functools.wraps(training_of, assigned=("__annotations__",))
def plan(**options: Any) -> None:
    """Print the parameters, batch, updates, epochs and hours of a run.

    tupe plan data/wiki --model tupe_a_base --nodes 2 --gpus 8 --gpu h100
    """
    print("\n".join(lines(training_of(**options))))


@functools.wraps(training_of, assigned=("__annotations__",))
def pretrain(**options: Any) -> None:
    """Pre-train a model, or train a translator, on any number of GPUs and machines.

    Gradients are accumulated so that the effective batch is that of the configuration. The command prints the plan and
    the `fairseq-hydra-train` command that it runs; the same command resumes from the last checkpoint. On several
    machines without SLURM set NODE_RANK and MASTER_ADDR.

    tupe pretrain data/wiki --model tupe_a_base
    """
    training = training_of(**options)
    for line in lines(training):
        print(f"plan: {line}")
    training.run()


def read_config(folder: Path, name: str, overrides: list[str]) -> DictConfig:
    """Compose a configuration as `fairseq-hydra-train` does: `name` in `folder`, `key=value`, and all defaults."""
    hydra_init(name)
    with warnings.catch_warnings(), initialize_config_dir(config_dir=str(folder.resolve()), version_base="1.1"):
        warnings.simplefilter("ignore")  # Hydra deprecates a file with the name of fairseq's schema
        cfg = compose(config_name=name, overrides=overrides)
        add_defaults(cfg)
        architecture(cfg.model, cfg.model._name)
    return cfg


def lines(training: Training) -> Iterator[str]:
    """Yield the lines of the plan of a training."""
    cfg = read_config(training.config.parent, training.config.stem, training.settings)
    task, split, world = cfg.task, cfg.dataset.train_subset, training.nodes * training.processes
    folders = [Path(folder) for folder in task.data.split(os.pathsep)]
    translates = task._name == "translation"
    words = f"dict.{task.source_lang}.txt" if translates else "dict.txt"
    symbols = (folders[0] / words).read_bytes().count(b"\n") + (4 if translates else 5)  # fairseq's own, and <mask>
    if translates:
        source, target = task.source_lang, task.target_lang
        length = max(task.max_source_positions, task.max_target_positions)
        tokens = max(_tokens(folders[0] / f"{split}.{source}-{target}.{side}") for side in (source, target))
        each, unit, width = cfg.dataset.max_tokens, "source or target tokens per update, at most", 1
    else:
        length = task.tokens_per_sample
        many = task._name == "tupe_multilingual_masked_lm"
        parts = [folder / part for folder in folders for part in (languages(folder, task.langs) if many else [""])]
        tokens = sum(_tokens(part / split) for part in parts)
        each, unit, width = cfg.dataset.batch_size, f"sequences per update, of {length} tokens each", length

    fields = {name: value for name, value in cfg.model.items() if name != "_name"}
    positions = fields.pop("max_positions", None) or length
    model = meta_model(cfg.model._name, symbols, positions, **fields)
    size = tqdm.format_sizeof(size_of(model).total)
    yield f"{full_name(as_namespace(cfg.model))}, {size} parameters, {symbols:,} symbols"

    accumulated = cfg.optimization.update_freq[0]
    batch = world * each * accumulated
    processes = f"{world} process{'es' * (world > 1)}{' on the CPU' * cfg.common.cpu}"
    yield f"{processes} x {each:,} x {accumulated} accumulated = {batch:,} {unit}"
    most, epochs = cfg.optimization.max_update or math.inf, cfg.optimization.max_epoch or math.inf
    epoch = max(1, math.ceil(tokens / len(folders) / (batch * width)))  # fairseq reads one folder per epoch
    updates = min(most, epochs * epoch)
    total = updates * batch * width
    yield (
        f"{updates:,} updates: {tqdm.format_sizeof(total)} tokens, {total / tokens:,.3g} times the training data of "
        f"{tqdm.format_sizeof(tokens)} tokens in {len(folders)} folder(s)"
    )
    if not translates:
        predicted = round(batch * length * task.get("mask_prob", 1.0))
        flops = updates * training_flops(model, batch * length, length, predicted)
        yield f"{flops:.3g} floating-point operations"
        if training.gpu:
            peak = TERAFLOPS[training.gpu]
            hours = flops / (world * 1e12 * peak * training.mfu) / 3600
            yield (
                f"{hours:,.3g} hours on {world} {training.gpu.upper()} at {training.mfu:.0%} of {peak} TFLOP/s each, "
                f"{world * hours:,.3g} GPU-hours"
            )


def _tokens(prefix: Path) -> int:
    data = MMapIndexedDataset(str(prefix))  # keep a reference: once it is deleted, it unmaps the memory of `sizes`
    return int(data.sizes.sum())
