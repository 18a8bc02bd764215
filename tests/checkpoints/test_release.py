"""The authors' release as checkpoints of ours; tests/contract compares the numbers."""

import json
import shlex
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

from tupe.checkpoints.load import open_checkpoint
from tupe.checkpoints.release import load_release
from tupe.cli.main import main

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module", params=["abs", "rel"])
def golden(request):
    with np.load(GOLDEN / f"authors_{request.param}.npz", allow_pickle=False) as arrays:
        return {
            name: torch.from_numpy(arrays[name]) if arrays[name].ndim else arrays[name][()] for name in arrays.files
        }


def part(arrays, prefix):
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}


@pytest.fixture(scope="module")
def release_file(golden, tmp_path_factory):
    """A checkpoint as the release's code writes it."""
    path = tmp_path_factory.mktemp("release") / "checkpoint.pt"
    args = Namespace(**json.loads(str(golden["args_json"])))
    torch.save({"args": args, "model": part(golden, "state/"), "optimizer_history": [], "extra_state": {}}, path)
    return path


def test_the_command_converts(release_file, golden, tmp_path, capsys):
    """The next command can be pasted, and the model says what the authors' says."""
    out = tmp_path / "TUPE's own.pt"
    assert main(["convert", "release", str(release_file), str(out)]) == 0
    command = capsys.readouterr().out.partition("fine-tune it with: ")[2]
    assert shlex.split(command) == ["tupe", "finetune", "TASK", str(out), "DATA"]
    opened, loaded = open_checkpoint(out), load_release(release_file)
    assert opened.config.max_positions == loaded.max_positions() and opened.config.reset == "release"
    assert opened.weights.keys() == loaded.state_dict().keys()
    assert all(torch.equal(opened.weights[name], tensor) for name, tensor in loaded.state_dict().items())


def test_prenorm_release(golden, tmp_path):
    """A pre-norm checkpoint has one more layer norm, at the end."""
    args = Namespace(**json.loads(str(golden["args_json"])))
    args.encoder_normalize_before = True
    state = part(golden, "state/")
    for name in ("weight", "bias"):
        state[f"decoder.sentence_encoder.emb_out_layer_norm.{name}"] = torch.full((48,), 0.5)
    torch.save({"args": args, "model": state}, tmp_path / "pre.pt")
    model = load_release(tmp_path / "pre.pt")
    with torch.no_grad():
        features, _ = model(golden["b/src_tokens"], features_only=True)
    # gain and bias 0.5 at the end: mean 0.5, standard deviation 0.5 at every position
    torch.testing.assert_close(features.mean(-1), torch.full(features.shape[:2], 0.5), rtol=0, atol=1e-5)
    torch.testing.assert_close(features.std(-1, correction=0), torch.full(features.shape[:2], 0.5), rtol=0, atol=1e-3)
