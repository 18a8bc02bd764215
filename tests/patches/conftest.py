import sys

import pytest
from fairseq_cli.train import cli_main

import tupe.models  # noqa: F401  registers everything, as --user-dir does


def trainer(corpus, patch):
    def train(folder, *flags, data=corpus, arch="tupe_tiny"):
        command = [
            "fairseq-train", data, "--user-dir", "tupe", "--task", "masked_lm", "--arch", arch,
            "--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16,
            "--encoder-attention-heads", 2, "--criterion", "masked_lm", "--tokens-per-sample", 32, "--batch-size", 8,
            "--optimizer", "adam", "--lr", 0.001, "--lr-scheduler", "fixed", "--max-update", 3, "--num-workers", 0,
            "--no-epoch-checkpoints", "--cpu", "--save-dir", folder, *flags,
        ]  # fmt: skip
        patch.setattr(sys, "argv", [str(part) for part in command])
        cli_main()

    return train


@pytest.fixture
def train(corpus, monkeypatch):
    """`train(folder, *flags)`: `fairseq-train` in this process, three updates of a very small model."""
    return trainer(corpus, monkeypatch)


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """Folder with a checkpoint of three updates."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        trainer(corpus, patch)(folder)
    return folder
