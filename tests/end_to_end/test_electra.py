"""Replaced-token detection by the real commands: two processes are one; the rest is in tests/contract."""

import pytest
import torch

from tests.commands import run, train_log
from tests.end_to_end.test_training import TINY_KEYS


def pretrain(corpus, folder, processes):
    """8 sequences an update: two processes of 4, or one that accumulates."""
    return run(
        "bash", "scripts/pretrain.sh", corpus, *TINY_KEYS, "+model.generator_size=0.5", "model.dropout=0",
        "model.attention_dropout=0", "task.tokens_per_sample=32", "optimization.lr=[0.003]", "dataset.num_workers=0",
        "optimization.max_update=8", "lr_scheduler.warmup_updates=2", "common.log_format=json", "common.log_interval=1",
        f"checkpoint.save_dir={folder}", CONFIG="electra", MODEL="electra_tupe_r_tiny", GPUS="0",
        PROCESSES=str(processes), BATCH="8", BATCH_PER_GPU="4",
    )  # fmt: skip


def test_two_processes_are_one(corpus, tmp_path):
    """They draw and learn the same, and hold one of what is shared."""
    logs, states = [], []
    for processes in (1, 2):
        said = pretrain(corpus, tmp_path / str(processes), processes).stdout
        names = ("loss", "gen_loss", "disc_loss", "replaced_share", "gnorm")
        logs.append([[float(record[name]) for name in names] for record in train_log(said)["train_inner"]])
        states.append(torch.load(tmp_path / f"{processes}/checkpoint_last.pt", weights_only=True)["model"])
    for one, two in zip(*logs, strict=True):
        assert one == pytest.approx(two, rel=2e-3, abs=2e-3)
    assert states[0].keys() == states[1].keys()
    assert not [name for name in states[1] if name.startswith("generator.sentence_encoder.embed_tokens")]
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], tensor, rtol=0, atol=2e-3, msg=name)
