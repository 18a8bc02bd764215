"""Training: the loss after 200 updates is that of 69687301, and a training that it began goes on."""

import json
import shutil

import torch

from tests.contract.aliases import build, load, save, train
from tests.contract.data import FIXTURES, write_data

OPTIONS = (
    "--optimizer", "adam", "--lr-scheduler", "linear_decay", "--batch-size", 8, "--log-format", "json", "--cpu",
    "--num-workers", 0, "--seed", 1, "--dropout", 0.0, "--attention-dropout", 0.0,
)  # fmt: skip
WORDS = ("--task", "masked_lm", "--tokens-per-sample", 32, "--criterion", "tupe_masked_lm", "--arch", "tupe_tiny")
SIZE = ("--encoder-layers", 2, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 32, "--encoder-attention-heads", 2)


def initial(path):
    """A checkpoint whose parameters depend on their names alone, so that no order of construction changes them."""
    model = build("tupe_tiny", 32)
    for number, name in enumerate(sorted(dict(model.named_parameters()))):
        if (parameter := model.get_parameter(name)).ndim > 1:
            torch.nn.init.normal_(parameter, std=0.05, generator=torch.Generator().manual_seed(number))
    save(path, model, "tupe_tiny")
    return path


def loss_after_200_updates(folder):
    """In bits, on the text that is held out."""
    data = write_data(folder / "data")
    printed = train(
        data, *OPTIONS, *WORDS, "--finetune-from-model", initial(folder / "initial.pt"), "--max-update", 200,
        "--warmup-updates", 20, "--lr", 0.001, "--adam-eps", 1e-6, "--clip-norm", 1.0,
        "--save-dir", folder / "run", "--no-epoch-checkpoints",
    )  # fmt: skip
    records = [json.loads(line[line.index("{") :]) for line in printed.splitlines() if '"valid_loss"' in line]
    assert records[-1]["valid_num_updates"] == "200"
    return float(records[-1]["valid_loss"])


def resumed(folder):
    """The weights three updates after those of `pretrained.pt`."""
    (folder / "run").mkdir(parents=True)
    shutil.copy(FIXTURES / "checkpoints/pretrained.pt", folder / "run/checkpoint_last.pt")
    data = write_data(folder / "data")
    end = ("--max-update", 6, "--warmup-updates", 2, "--lr", 0.003)
    train(data, *OPTIONS, *WORDS, *SIZE, *end, "--save-dir", folder / "run")
    return load(folder / "run/checkpoint_last.pt", data).state_dict()


def test_loss_after_200_updates(tmp_path):
    expected = json.loads((FIXTURES / "loss.json").read_text())["bits"]
    assert abs(loss_after_200_updates(tmp_path) - expected) < 0.00101  # the log has three decimals


def test_a_training_goes_on(tmp_path):
    expected = torch.load(FIXTURES / "resumed.pt", weights_only=True)
    found = resumed(tmp_path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6, msg=f"{name} differs")
