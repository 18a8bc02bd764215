"""The TUPE authors' own numbers (`tests/golden/README.md`): logits, features, position bias, loss and gradients."""

import json
from argparse import Namespace

import numpy as np
import pytest
import torch

from tests.contract.aliases import ROOT, convert_release, convert_release_state, load, load_release
from tests.contract.data import PAD, write_dictionaries

SYMBOLS = 60


def part(arrays, prefix):
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}


def golden_of(kind):
    with np.load(ROOT / f"tests/golden/authors_{kind}.npz", allow_pickle=False) as arrays:
        return {
            name: torch.from_numpy(arrays[name]) if arrays[name].ndim else arrays[name][()] for name in arrays.files
        }


def release_file(golden, path):
    """A checkpoint as the release's code writes it."""
    args = Namespace(**json.loads(str(golden["args_json"])))
    torch.save({"args": args, "model": part(golden, "state/"), "optimizer_history": [], "extra_state": {}}, path)
    return path


@pytest.fixture(scope="module", params=["abs", "rel"])
def golden(request):
    return golden_of(request.param)


@pytest.fixture(scope="module")
def model(golden, tmp_path_factory):
    return load_release(release_file(golden, tmp_path_factory.mktemp("release") / "release.pt"))


@pytest.mark.parametrize("batch", ["a", "b"])
def test_outputs(model, golden, batch):
    expected = part(golden, f"{batch}/")
    tokens = expected["src_tokens"]
    with torch.no_grad():
        logits, extra = model(tokens, return_all_hiddens=True)
        features, _ = model(tokens, features_only=True)
        bias = model.get_submodule("encoder.sentence_encoder.position_bias")(tokens.shape[1]).bias
    states = torch.stack([state.transpose(0, 1) for state in extra["inner_states"]])
    found = {"logits": logits, "features": features, "inner_states": states, "pos_bias": bias}
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=2e-5 if name == "pos_bias" else 5e-5)


@pytest.mark.parametrize("batch", ["a", "b"])
def test_gradients(model, golden, batch):
    expected = part(golden, f"{batch}/")
    tokens = expected["src_tokens"]
    model.zero_grad()
    logits, _ = model(tokens)
    loss = (logits * expected["loss_weight"]).sum() / (tokens.ne(PAD).sum() * SYMBOLS)
    loss.backward()
    assert loss.item() == pytest.approx(float(expected["loss"]), abs=1e-6)
    theirs = convert_release_state(part(expected, "grad/"))
    assert theirs.keys() == dict(model.named_parameters()).keys()
    # rows that ours keeps elsewhere: the release's row 1 is theta_2, its bucket 16 is theta_1's
    elsewhere = {"absolute.table.weight": 0, "position_bias.relative.weight": 16}
    for name, parameter in model.named_parameters():
        row = next((row for end, row in elsewhere.items() if name.endswith(end)), None)
        gradient = theirs[name].clone()
        if row is not None:
            gradient[row] = 0
        torch.testing.assert_close(
            parameter.grad, gradient, rtol=0, atol=2e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_converted(golden, tmp_path):
    """`tupe convert-release` writes a checkpoint of ours."""
    convert_release(release_file(golden, tmp_path / "release.pt"), tmp_path / "model.pt")
    data = write_dictionaries(tmp_path, [f"word{number}" for number in range(SYMBOLS - 5)])
    with torch.no_grad():
        logits = load(tmp_path / "model.pt", data)(golden["b/src_tokens"])[0]
    torch.testing.assert_close(logits, golden["b/logits"], rtol=0, atol=5e-5)
