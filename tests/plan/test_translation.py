"""The plan of a translation's training: its numbers, and what is refused before anything is started."""

import json
import re
import shutil
from collections import namedtuple

import pytest
import torch
from fairseq import models, tasks

from tests.commands import ROOT
from tupe.cli.main import main
from tupe.errors import UserError
from tupe.plan.check import Launch
from tupe.plan.config import read_config
from tupe.plan.estimate import short
from tupe.plan.translation import made_of, plan

CPU = Launch(nodes=1, processes=1, gpus=0)


def config(data, *overrides, name="multi30k_en_de"):
    common = ["common.fp16=false", "common.cpu=true", "lr_scheduler.warmup_updates=1", f"task.data={data}"]
    return read_config(ROOT / "configs/translation", name, [*common, *overrides])


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    """A disk with 10 GB free."""
    usage = namedtuple("Usage", "total used free")(0, 0, 10_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def test_numbers(parallel, tmp_path):
    train = json.loads((parallel / "manifest.json").read_text())["splits"]["train"]
    tokens = train["source pieces"] + train["kept"], train["target pieces"] + train["kept"]
    cfg = config(
        parallel, "dataset.max_tokens=100", "optimization.update_freq=[2]", f"checkpoint.save_dir={tmp_path}/a"
    )
    model, batch, total, disk = plan(cfg, Launch(nodes=2, processes=2, gpus=0))
    assert model.endswith(" parameters, 60 symbols, on 2 node(s) x 2 process(es), 0 GPU(s) a node")
    assert batch == "4 x 100 tokens x 2 accumulated = at most 800 source or target tokens an update"
    epoch = -(-max(tokens) // 800)
    assert total == (
        f"8,000 updates: at most {8000 / epoch:,.3g} times the {train['kept']} pairs of {tokens[0] / 1000:.3g}k en and "
        f"{tokens[1] / 1000:.3g}k de tokens, {epoch} updates or more each"
    )
    assert disk.startswith(
        f"checkpoints in {tmp_path}/a: at most 14 of "
    )  # last, best, a copy, ten epochs and the newest


@pytest.mark.parametrize("overrides", [(), ("model.share_all_embeddings=false", "+model.cross_position=low_rank")])
def test_parameters_are_those_of_the_model(overrides, parallel):
    cfg = config(parallel, "model._name=seq2seq_shaw_tiny", *overrides)
    model = models.build_model(cfg.model, tasks.setup_task(cfg.task))
    number = sum(p.numel() for p in model.parameters())
    line = next(plan(cfg, CPU))
    assert f", {short(number)} parameters, " in line
    assert line.startswith(
        "seq2seq_shaw_tiny " + ("cross_position=low_rank, " if overrides else "share_all_embeddings=True, ")
    )


@pytest.mark.parametrize(("processes", "update_freq"), [(1, 8), (8, 1)])
def test_the_batch_of_the_paper(processes, update_freq, parallel):
    languages = "task.source_lang=en", "task.target_lang=de"
    cfg = config(parallel, f"optimization.update_freq=[{update_freq}]", *languages, name="wmt18")
    assert "= at most 32,768 source" in list(plan(cfg, Launch(nodes=1, processes=processes, gpus=0)))[1]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model._name=seq2seq_tupe_huge"], "no (translation )?model '?seq2seq_tupe_huge"),
        (["model._name=transformer"], "no translation model transformer"),
        (["task.data=/nowhere"], "there is no /nowhere/manifest.json: give what tupe prepare-translation wrote"),
        (
            ["task.source_lang=de", "task.target_lang=en"],
            "is of en to de: set task.source_lang=en and task.target_lang=de",
        ),
        (["task.source_lang=???"], "is of en to de: set task.source_lang=en and task.target_lang=de"),
        (["common.fp16=true"], "bf16"),
        (["dataset.max_tokens=null"], "in tokens"),
        (["dataset.train_subset=nosuch"], "knows no data 'nosuch', but train, valid"),
        (["dataset.valid_subset=nosuch"], "knows no data 'nosuch'"),
        (["task.data=null"], "^no data are given: set task.data"),
        (["dataset.batch_size=8"], "in tokens"),
        (["optimization.max_update=0"], "no end"),
        (["lr_scheduler.warmup_updates=8000"], "warm-up of 8,000 .* run of 8,000"),
        (["model._name=seq2seq_shaw_tiny", "+model.cross_position=diagonal"], "cross_position=diagonal is T5's"),
        (["checkpoint.sav_dir=x"], "sav_dir"),
    ],
)
def test_refuses(overrides, said, parallel):
    with pytest.raises(UserError, match=said):
        list(plan(config(parallel, *overrides), CPU))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train.en-de.de.bin", "has .* bytes, not the"),
        ("valid.en-de.en.idx", "has .* bytes, not the"),
        ("dict.en.txt", "is not the one that tupe prepare-translation wrote"),
        ("sentencepiece.bpe.model", "is not the one that tupe prepare-translation wrote"),
    ],
)
def test_data_are_checked(name, said, parallel, tmp_path):
    data = shutil.copytree(parallel, tmp_path / "data")
    (data / name).write_bytes((data / name).read_bytes()[:-1])
    with pytest.raises(UserError, match=re.escape(name) + f" {said}"):
        list(plan(config(data), CPU))


def test_another_vocabulary_is_refused(parallel, tmp_path):
    data = shutil.copytree(parallel, tmp_path / "data")
    lines = (data / "dict.de.txt").read_text().splitlines(keepends=True)
    (data / "dict.de.txt").write_text("".join(reversed(lines)))
    with pytest.raises(UserError, match=r"dict\.de\.txt is not the one that tupe prepare-translation wrote"):
        list(plan(config(data), CPU))


def test_the_folder_is_of_model_and_data(parallel):
    one = made_of(config(parallel))
    assert one == made_of(config(parallel, "optimization.max_update=9", "dataset.max_tokens=1", "model.dropout=0"))
    assert one != made_of(config(parallel, "+model.cross_position=low_rank"))
    assert one["data"]["languages"] == "en-de"


def test_command(parallel, tmp_path, capsys):
    folder, save_dir = str(ROOT / "configs/translation"), f"checkpoint.save_dir={tmp_path / 'a'}"
    given = [f"task.data={parallel}", save_dir, "common.cpu=true"]
    assert main(["plan", folder, "multi30k_en_de", *given]) == 0
    assert capsys.readouterr().out.startswith("plan: seq2seq_sinusoidal_tiny share_all_embeddings=True, ")
    assert main(["plan", "--here", "--gpus", "99", folder, "multi30k_en_de", *given]) == 1
    assert f"but PyTorch {torch.__version__} sees" in capsys.readouterr().err
    assert main(["plan", "--gpus", "8", "--gpu", "h100", folder, "multi30k_en_de", *given]) == 1
    assert "hours are told of pre-trainings alone" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
