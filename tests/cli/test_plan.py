"""The numbers of a plan."""

import re

import pytest
from fairseq import models, tasks
from tqdm import tqdm

from tests.commands import ROOT
from tests.contract.fixtures.data import WORDS, write_data
from tupe.cli.launch import Training
from tupe.cli.plan import lines, read_config


def pretraining(corpus, *overrides, nodes=1, processes=1, name="base", **more):
    overrides = [f"task.data={corpus}", "task.tokens_per_sample=32", "model._name=tupe_tiny", *overrides]
    training = Training(ROOT / f"configs/pretraining/{name}.yaml", overrides, nodes, processes, **more)
    return list(lines(training))


def test_numbers(corpus):
    tokens = sum(len(line.split()) + 1 for line in (corpus / "raw/train").read_text().splitlines())
    keys = ("dataset.batch_size=4", "optimization.update_freq=[8]")
    first, batch, total, operations = pretraining(corpus, *keys, nodes=2, processes=4)
    assert first == "tupe_tiny, 859k parameters, 91 symbols"
    assert batch == "8 processes x 4 x 8 accumulated = 256 sequences per update, of 32 tokens each"
    assert total.startswith(f"1,000,000 updates: 8.19G tokens, {8.192e9 / tokens:,.3g} times the training data of ")
    assert operations.endswith(" floating-point operations")


@pytest.mark.parametrize(("name", "updates", "batch"), [("base", "1,000,000", 16 * 16), ("diet", "500,000", 64 * 64)])
def test_configurations_of_the_papers(name, updates, batch, corpus):
    _, second, third, _ = pretraining(corpus, name=name)
    assert f"= {batch:,} sequences per update" in second
    assert third.startswith(f"{updates} updates")


def test_an_epoch_is_one_shard(corpus):
    keys = ("optimization.max_update=0", "optimization.max_epoch=3", "dataset.batch_size=8")
    one, two = (pretraining(data, *keys)[2] for data in (corpus, f"{corpus}:{corpus}"))
    assert one.partition(" tokens, ")[0] == two.partition(" tokens, ")[0]
    assert two.endswith("2 folder(s)")


def test_hours_of_the_papers_base(corpus):
    """By hand: 6 operations a weight of a layer and token, and so on, as `training_flops` counts them."""
    away = {"nodes": 2, "processes": 8, "gpu": "h100", "mfu": 0.4}
    *_, hours = pretraining(corpus, "model._name=tupe_base", "task.tokens_per_sample=512", **away)
    tokens = 1_000_000 * 16 * 16 * 16 * 512
    layers = 12 * 12 * 768**2  # four products of attention and two of eight times its size
    head = 0.15 * (768**2 + 91 * 768)
    flops = 6 * tokens * (layers + head) + 12 * tokens * 512 * 768 * 12
    shown = float(re.search(r"([\d.,e+]+) hours on 16 H100 at 40% of 989 TFLOP/s", hours)[1].replace(",", ""))
    assert shown == pytest.approx(flops / (16 * 989e12 * 0.4) / 3600, rel=0.01)


@pytest.mark.parametrize("keys", [(), ("model.share_all_embeddings=false", "+model.cross_position=low_rank")])
def test_a_translation(keys, tmp_path):
    overrides = [f"task.data={write_data(tmp_path)}", "model._name=seq2seq_shaw_tiny", "dataset.max_tokens=100",
                 "optimization.update_freq=[2]", *keys]  # fmt: skip
    path = ROOT / "configs/translation/multi30k_en_de.yaml"
    first, batch, updates = lines(Training(path, overrides, 2, 2))
    cfg = read_config(path.parent, path.stem, overrides)
    number = sum(p.numel() for p in models.build_model(cfg.model, tasks.setup_task(cfg.task)).parameters())
    assert f", {tqdm.format_sizeof(number)} parameters, {4 + len(WORDS)} symbols" in first
    assert batch == "4 processes x 100 x 2 accumulated = 800 source or target tokens per update, at most"
    assert updates.startswith("8,000 updates: 6.40M tokens, ")
