"""Replaced-token detection by the real commands: two processes are one, a run goes on bit for bit, fine-tuning."""

import pytest
import torch

from tests.commands import finetune, hydra_train, run, train_log
from tests.end_to_end.test_training import TINY_KEYS

KEYS = ("+model.generator_size=0.5", *TINY_KEYS, "optimization.max_update=8", "lr_scheduler.warmup_updates=2",
        "model.dropout=0.1", "checkpoint.save_interval_updates=4")  # fmt: skip


def pretrain(corpus, folder, processes, *keys):
    return run(
        "bash", "scripts/pretrain.sh", corpus, *KEYS, "task.tokens_per_sample=32", "optimization.lr=[0.003]",
        "common.log_format=json", "common.log_interval=1", "dataset.num_workers=0", f"checkpoint.save_dir={folder}",
        *keys, CONFIG="electra", MODEL="electra_tupe_r_tiny", GPUS="0", PROCESSES=str(processes), BATCH="8",
        BATCH_PER_GPU="4",
    )  # fmt: skip


def pretrain_alone(corpus, folder, *keys, check=True):
    """The same by one process, without the script: 4 sequences x 2 accumulated."""
    alone = ("model._name=electra_tupe_r_tiny", "dataset.batch_size=4", "optimization.update_freq=[2]")
    return hydra_train(corpus, folder, *alone, *KEYS, *keys, config="electra", check=check)


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A run of one process, to its end; dropout makes every update depend on the state of the random numbers."""
    folder = tmp_path_factory.mktemp("electra") / "whole"
    return folder, pretrain(corpus, folder, 1)


def test_two_processes_are_one(corpus, tmp_path):
    """2 x 4 sequences draw and learn what 1 x 4 x 2 do, and hold one of what is shared."""
    logs = []
    no_dropout = ("model.dropout=0", "model.attention_dropout=0")
    for done in (pretrain_alone(corpus, tmp_path / "1", *no_dropout), pretrain(corpus, tmp_path / "2", 2, *no_dropout)):
        names = ("loss", "gen_loss", "disc_loss", "replaced_share", "gnorm")
        logs.append([[float(record[name]) for name in names] for record in train_log(done.stdout)["train_inner"]])
    for one, two in zip(*logs):
        assert one == pytest.approx(two, rel=2e-3, abs=2e-3)
    states = [torch.load(tmp_path / p / "checkpoint_last.pt", weights_only=True)["model"] for p in ("1", "2")]
    assert states[0].keys() == states[1].keys()
    assert not [name for name in states[1] if name.startswith("generator.sentence_encoder.embed_tokens")]
    for name, tensor in states[0].items():
        torch.testing.assert_close(states[1][name], tensor, rtol=0, atol=2e-3, msg=name)


def test_discriminator_is_fine_tuned_with_rates_by_layer(whole, glue, tmp_path):
    keys = ("recipe=electra", "optimization.max_epoch=1", f"checkpoint.save_dir={tmp_path / 'sts-b'}")
    done = finetune("STS-B", whole[0] / "checkpoint_last.pt", glue, *keys)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("STS-B: pearson ")
    state = torch.load(tmp_path / "sts-b/checkpoint_best.pt", weights_only=True)
    assert not [name for name in state["model"] if "lm_head" in name]
    assert state["last_optimizer_state"] is None and state["cfg"]["lr_scheduler"]["layer_decay"] == 0.8
    assert not [name for name in state["model"] if name.startswith(("generator.", "discriminator_head."))]
    heads = sorted(name.rpartition("head.")[2] for name in state["model"] if name.startswith("classification_heads."))
    assert heads == ["out_proj.bias", "out_proj.weight"]
    encoder = "encoder.sentence_encoder.layers.0.fc1.weight"
    pretrained = torch.load(whole[0] / "checkpoint_last.pt", weights_only=True)["model"][encoder]
    assert 0 < (state["model"][encoder] - pretrained).abs().max() < 1e-3
