"""Plan the training of a translation model, and tell what its folder depends on."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from tupe.data.corpus.manifest import MODEL
from tupe.data.translation.manifest import Content
from tupe.errors import UserError
from tupe.models.describe import full_name
from tupe.models.seq2seq.config import CONFIGS
from tupe.models.summary import meta_model
from tupe.models.tupe import as_namespace
from tupe.plan.check import Launch, check
from tupe.plan.disk import disk
from tupe.plan.estimate import number_of_updates, short
from tupe.plan.pretraining import model_of, validated

MADE_BY = "scripts/translate_train.sh"


def plan(cfg: DictConfig, launch: Launch) -> Iterator[str]:
    """Yield the lines of the plan, once the files of the data are checked: sizes, indexes, the vocabulary.

    Raises:
        UserError: for a model that does not exist or cannot be, GPUs that are not there, data that are missing, damaged
            or of other languages, hours that are asked for, a batch that is not `dataset.max_tokens` tokens, a
            precision that the CPU lacks, a warm-up that is not shorter than the run, and too little disk space for
            the checkpoints.
    """
    check(cfg, launch)
    if launch.gpu or launch.measured or launch.probe:
        raise UserError("hours are told of pre-trainings alone: leave --gpu, --measured and --from out.")
    name, task = cfg.model._name, cfg.task
    if name not in CONFIGS:
        raise UserError(f"there is no translation model {name}: `tupe systems --translation` lists them.")
    most = cfg.dataset.max_tokens
    if most in (None, -1) or cfg.dataset.batch_size is not None:
        raise UserError("a batch is counted in tokens: set dataset.max_tokens, and not dataset.batch_size.")
    content = _data(cfg)
    for split in (cfg.dataset.train_subset, *validated(cfg)):
        if not content.splits.get(split, {}).get("kept"):
            raise UserError(
                f"the manifest of {task.data} knows no data {split!r:.60}, but {', '.join(content.splits)}: set "
                "dataset.train_subset or dataset.valid_subset to one of these, or prepare it again."
            )
    train, symbols = content.splits[cfg.dataset.train_subset], content.settings.vocab_size
    args = as_namespace(cfg.model)
    fields = {field: value for field, value in vars(args).items() if field != "_name"}
    longest = max(task.max_source_positions, task.max_target_positions)
    model = meta_model(name, symbols, longest, **fields)
    parameters = sum(p.numel() for p in model.parameters())
    yield f"{full_name(args)}, {short(parameters)} parameters, {symbols:,} symbols, on {launch}"

    world, accumulated = launch.nodes * launch.processes, cfg.optimization.update_freq[0]
    batch = world * most * accumulated
    yield f"{world} x {most:,} tokens x {accumulated} accumulated = at most {batch:,} source or target tokens an update"
    pairs = train["kept"]
    tokens = [train.get(f"{side} pieces", 0) + pairs for side in ("source", "target")]  # </s> counts
    epoch = math.ceil(max(tokens) / batch)
    updates = number_of_updates(cfg, epoch)
    yield (
        f"{updates:,} updates: at most {updates / epoch:,.3g} times the {pairs:,} pairs of {short(tokens[0])} "
        f"{task.source_lang} and {short(tokens[1])} {task.target_lang} tokens, {epoch:,} updates or more each"
    )
    yield disk(cfg, launch, updates, epoch, model)


def made_of(cfg: DictConfig) -> dict[str, Any]:
    """Return what a run's folder depends on: the model, the languages and the data."""
    content, pair = _data(cfg), f"{cfg.task.source_lang}-{cfg.task.target_lang}"
    files = (MODEL, *(f"{cfg.dataset.train_subset}.{pair}.{language}.bin" for language in content.settings.languages))
    sums = {name: content.checksums.get(name, "")[:12] for name in files}
    return {"model": model_of(cfg, cfg.task.max_source_positions), "data": {"languages": pair, **sums}}


def _data(cfg: DictConfig) -> Content:
    content = Content.load(Path(cfg.task.data))
    source, target = content.settings.languages
    if (cfg.task.source_lang, cfg.task.target_lang) != (source, target):
        raise UserError(
            f"{cfg.task.data} is of {source} to {target}: set task.source_lang={source} and task.target_lang={target}, "
            "or give other data."
        )
    return content
