"""A user's module outside the package: its term is a flag and a key, trains, goes on, is looked at, and is refused."""

import re
import subprocess
import sys

import pytest
import torch

from tests.commands import ROOT, hydra_train, run, train, train_log

OWN = "examples/own_term"
TINY = ("--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2)


def test_the_term_is_one():
    """In a process of its own: this one has made its flags."""
    code = (
        "import sys; sys.path.insert(0, 'examples')\n"
        "import own_term, torch\n"
        "from tupe.position import check_term\n"
        "from tupe.models.config import CONFIGS\n"
        "check_term(own_term.Tisa(3, 16, tisa_kernels=2))\n"
        "print(CONFIGS['bert_a_base'](relative='tisa').tisa_kernels)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5"]


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    flags = ("--user-dir", OWN, "--arch", "tupe_tiny", *TINY, "--relative", "tisa", "--tisa-kernels", 3)
    log = train_log(train(corpus, folder, *flags, "--max-update", 8).stdout)
    assert len(log["train_inner"]) == 8
    return folder


def test_by_hydra_it_goes_on(trained, corpus):
    keys = [f"+model.{flag[2:].replace('-', '_')}={value}" for flag, value in zip(TINY[::2], TINY[1::2])]
    done = hydra_train(
        corpus, trained, f"common.user_dir={OWN}", "+model.relative=tisa", "+model.tisa_kernels=3", *keys,
        "optimization.max_update=10",
    )  # fmt: skip
    assert [int(record["num_updates"]) for record in train_log(done.stdout)["train_inner"]] == [9, 10]
    state = torch.load(trained / "checkpoint_last.pt", weights_only=True)
    assert state["model"]["encoder.sentence_encoder.position_bias.relative.height"].shape == (2, 3)
    other = hydra_train(
        corpus, trained, f"common.user_dir={OWN}", "+model.relative=tisa", *keys, "optimization.max_update=12",
        check=False,
    )  # fmt: skip
    assert "tisa_kernels: checkpoint 3, here 5" in other.stdout + other.stderr


def test_commands_know_it_where_they_are_told(trained):
    checkpoint = trained / "checkpoint_last.pt"
    done = run("tupe", "describe", checkpoint, TUPE_USER_DIR=OWN)
    assert "tisa(j - i)" in done.stdout
    assert "tisa_kernels=3 (given; tupe_tiny has 5)" in done.stdout
    assert run("tupe", "user-dir", TUPE_USER_DIR=OWN).stdout == f"{ROOT / OWN}\n"
    refused = run("tupe", "user-dir", check=False, TUPE_USER_DIR="docs")
    assert (
        refused.stderr
        == "error: TUPE_USER_DIR is docs, which has no __init__.py: give the folder of a package, as to --user-dir\n"
    )


def test_a_checkpoint_imports_nothing(trained, capsys):
    """By our commands, and by fairseq's: one sentence."""
    from tupe.cli.main import main
    from tupe.errors import UserError
    from tupe.models import TupeModel

    said = r"has relative=tisa, a term that is not registered here: give the folder of the module .* as --user-dir"
    assert main(["describe", str(trained / "checkpoint_last.pt")]) == 1
    assert re.search(said, capsys.readouterr().err)
    (trained / "dict.txt").touch()
    with pytest.raises(UserError, match=said):
        TupeModel.from_pretrained(str(trained), "checkpoint_last.pt", ".")
