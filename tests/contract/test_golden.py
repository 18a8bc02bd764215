"""The TUPE authors' own numbers (`tests/golden/README.md`): logits, features, position bias, loss and gradients."""

import json
from argparse import Namespace

import numpy as np
import pytest
import torch

from tests.contract.aliases import ROOT, convert_release_state, in_this_process, load, load_release
from tests.contract.fixtures.data import PAD, write_dictionaries

SYMBOLS = 60


def part(arrays, prefix):
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}


def release_file(golden, path):
    """A checkpoint as the release's code writes it."""
    args = Namespace(**json.loads(str(golden["args_json"])))
    torch.save({"args": args, "model": part(golden, "state/"), "optimizer_history": [], "extra_state": {}}, path)
    return path


@pytest.fixture(scope="module", params=["abs", "rel"])
def golden(request):
    with np.load(ROOT / f"tests/golden/authors_{request.param}.npz") as file:
        return {name: torch.from_numpy(array) if array.ndim else array[()] for name, array in file.items()}


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
    # rows that ours keeps elsewhere: the release's row 1 is theta_2, its bucket 16 is theta_1's
    for end, row in {"absolute.table.weight": 0, "position_bias.relative.weight": 16}.items():
        for gradient in (value for name, value in theirs.items() if name.endswith(end)):
            gradient[row] = 0
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    torch.testing.assert_close(found, theirs, rtol=0, atol=2e-6)


def test_converted(golden, tmp_path):
    in_this_process("convert", "release", release_file(golden, tmp_path / "release.pt"), tmp_path / "model.pt")
    data = write_dictionaries(tmp_path, [f"word{number}" for number in range(SYMBOLS - 5)])
    with torch.no_grad():
        logits = load(tmp_path / "model.pt", data)(golden["b/src_tokens"])[0]
    torch.testing.assert_close(logits, golden["b/logits"], rtol=0, atol=5e-5)
