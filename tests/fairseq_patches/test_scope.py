"""fairseq's own models train in a process with the plugin bit for bit as without it, whichever is imported first."""

import json
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

from tests.commands import ROOT, run
from tupe.fairseq_patches.scope import config_in_scope, in_scope
from tupe.fairseq_patches.task import put_in_scope
from tupe.models import TupeModel


def commands(corpus, folder):
    common = ("--cpu", "--num-workers", 0, "--max-update", 2, "--optimizer", "adam", "--lr", 0.001, "--lr-scheduler",
              "fixed", "--no-epoch-checkpoints", "--validate-interval-updates", 2, "--log-format", "json")  # fmt: skip
    small = ("--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16,
             "--encoder-attention-heads", 2)  # fmt: skip
    pairs = corpus / "pairs"
    yield (corpus, "--task", "masked_lm", "--arch", "roberta", "--criterion", "masked_lm", "--tokens-per-sample", 32,
           "--batch-size", 12, "--update-freq", 2, *small, "--save-dir", folder / "roberta", *common)  # fmt: skip
    yield (pairs, "--task", "translation", "--arch", "transformer", "--source-lang", "a", "--target-lang", "b", *small,
           "--decoder-layers", 1, "--decoder-embed-dim", 16, "--decoder-ffn-embed-dim", 16,
           "--decoder-attention-heads", 2, "--max-tokens", 300, "--fp16", "--fp16-no-flatten-grads",
           "--save-dir", folder / "transformer", *common)  # fmt: skip


@pytest.fixture(scope="module")
def parallel(corpus):
    """The corpus, with `pairs`: a translation of half of every line into the other half."""
    raw = corpus / "raw"
    for split in ("train", "valid"):
        lines = (raw / split).read_text().splitlines()[:100]
        for side, part in (("a", slice(None, 10)), ("b", slice(10, None))):
            (raw / f"pairs-{split}.{side}").write_text("".join(" ".join(line.split()[part]) + "\n" for line in lines))
    run(
        "fairseq-preprocess", "--source-lang", "a", "--target-lang", "b", "--trainpref", raw / "pairs-train",
        "--validpref", raw / "pairs-valid", "--destdir", corpus / "pairs", "--joined-dictionary", "--workers", 1,
    )  # fmt: skip
    return corpus


def test_other_models_are_fairseqs_alone(parallel, tmp_path):
    results = []
    for when in ("never", "first", "last"):
        # a fork has imported fairseq
        python = sys.executable if when == "first" else "python3"
        argv = [[str(part) for part in command] for command in commands(parallel, tmp_path / when)]
        run(
            python, "-m", "tests.fairseq_patches.train_again", when, json.dumps(argv), tmp_path / f"{when}.pt",
            TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1",  # or fairseq alone could not read what it wrote
        )  # fmt: skip
        results.append(torch.load(tmp_path / f"{when}.pt", weights_only=False))
    without, *others = results
    assert [len(logged[0]) for logged, _ in without] == [2, 1, 2, 1]  # started again, fairseq makes an update more
    for found in others:
        assert [logged for logged, _ in found] == [logged for logged, _ in without]
        torch.testing.assert_close([learnt for _, learnt in found], [learnt for _, learnt in without], rtol=0, atol=0)


def test_whose_a_run_is():
    task, other = SimpleNamespace(), SimpleNamespace()
    put_in_scope(task)
    assert in_scope(task) and not in_scope(other, None)
    assert in_scope(TupeModel, other) and in_scope(type("Users", (TupeModel,), {}))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"model": {"_name": "roberta"}, "task": {"_name": "masked_lm"}, "criterion": {"_name": "masked_lm"}}, False),
        ({"model": {"_name": "tupe_tiny"}, "task": {"_name": "masked_lm"}, "criterion": {"_name": "masked_lm"}}, True),
        ({"model": {"_name": "roberta"}, "task": {"_name": "tupe_sentence_prediction"}}, True),
        ({"model": None, "task": {"_name": "masked_lm"}, "common": {"user_dir": str(ROOT / "tupe")}}, True),
        ({"model": None, "task": {"_name": "masked_lm"}, "common": {"user_dir": str(ROOT / "tests")}}, False),
        ({"model": {"_name": "roberta"}, "task": None, "common": {"user_dir": str(ROOT / "tupe")}}, False),
    ],
)
def test_whose_a_configuration_is(parts, expected):
    cfg = OmegaConf.create({"criterion": None, "common": {"user_dir": None}, **parts})
    assert config_in_scope(cfg) == expected


def test_whose_parsed_arguments_are():
    assert config_in_scope(Namespace(arch="tupe_tiny", task="masked_lm", criterion="masked_lm"))
    assert not config_in_scope(Namespace(arch="roberta", task="masked_lm", criterion="masked_lm"))
