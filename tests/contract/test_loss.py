"""Training: the loss after 200 updates is that of 69687301, and a training that it began goes on."""

import json
import shutil

import torch

from tests.contract.aliases import COMMON, MASKED_LM, build, flags, load, run, write_checkpoint
from tests.contract.fixtures.data import FIXTURES, write_data


def train(data, save_dir, *options):
    always = ("--lr-scheduler", "linear_decay", "--seed", 1, "--dropout", 0.0, "--attention-dropout", 0.0)
    return run("fairseq-train", data, *COMMON, *MASKED_LM, *always, "--save-dir", save_dir, *options).stdout


def test_loss_after_200_updates(tmp_path):
    """The parameters at the beginning depend on their names alone, so that no order of construction changes them."""
    model = build("tupe_tiny", 32)
    for number, name in enumerate(sorted(dict(model.named_parameters()))):
        if (parameter := model.get_parameter(name)).ndim > 1:
            torch.nn.init.normal_(parameter, std=0.05, generator=torch.Generator().manual_seed(number))
    write_checkpoint(tmp_path / "initial.pt", model, "tupe_tiny")
    printed = train(
        write_data(tmp_path / "data"), tmp_path / "run", "--finetune-from-model", tmp_path / "initial.pt",
        "--max-update", 200, "--warmup-updates", 20, "--lr", 0.001, "--adam-eps", 1e-6, "--clip-norm", 1.0,
        "--no-epoch-checkpoints",
    )  # fmt: skip
    records = [json.loads(line[line.index("{") :]) for line in printed.splitlines() if '"valid_loss"' in line]
    assert records[-1]["valid_num_updates"] == "200"
    expected = json.loads((FIXTURES / "loss.json").read_text())["bits"]
    assert abs(float(records[-1]["valid_loss"]) - expected) < 0.00101  # the log has three decimals


def test_a_training_goes_on(tmp_path):
    """The weights three updates after those of `pretrained.pt`."""
    data, last = write_data(tmp_path / "data"), tmp_path / "run/checkpoint_last.pt"
    last.parent.mkdir()
    shutil.copy(FIXTURES / "checkpoints/pretrained.pt", last)
    size = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 2}
    train(data, last.parent, *flags(size), "--max-update", 6, "--warmup-updates", 2, "--lr", 0.003)
    found, expected = load(last, data).state_dict(), torch.load(FIXTURES / "resumed.pt", weights_only=True)
    torch.testing.assert_close(dict(found), dict(expected), rtol=1e-5, atol=1e-6)
