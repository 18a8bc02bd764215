"""Checkpoints that 69687301 wrote (`make_fixtures.py`) load, and compute what they computed there."""

import numpy as np
import pytest
import torch

from tests.contract.aliases import load, load_translator
from tests.contract.data import FIXTURES, PAD, sentences, write_dictionaries

NAMES = ("pretrained", "hydra", "window", "deberta", "linformer", "cross", "shaw", "fine_tuned", "spans", "electra",
         "translator", "imported", "release")  # fmt: skip
IMPORTED, HEAD = FIXTURES / "imported", "sentence_classification_head"


def loaded(name, data):
    """A checkpoint of the fixtures; an imported one has a dictionary of its own."""
    path = FIXTURES / f"checkpoints/{name}.pt"
    return load_translator(path, data) if name == "translator" else load(path, IMPORTED if name == "imported" else data)


@torch.no_grad()
def outputs(model):
    """All that a model says of some sentences."""
    tokens = sentences(13, 8, 2)
    kept = tokens != PAD
    if not hasattr(model, "classification_heads"):
        return {"words": model(tokens, None, tokens.roll(1, 1)[:, :8])[0]}
    features = model(tokens, features_only=True)[0]
    found = {"words": model(tokens)[0][kept], "features": features[kept]}
    if hasattr(model, "discriminator_head"):
        found["replaced"] = model.discriminator_head(features[kept])
    if hasattr(model, "span_head"):
        found["spans"] = torch.stack(model.span_head(features))[:, kept]
    for name in model.classification_heads:
        found[name] = model(tokens, features_only=True, classification_head_name=name)[0]
    return found


@pytest.fixture(scope="module")
def logits():
    with np.load(FIXTURES / "logits.npz") as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


@pytest.mark.parametrize("name", NAMES)
def test_loads(name, logits, tmp_path):
    found = outputs(loaded(name, write_dictionaries(tmp_path)))
    expected = {key.partition("/")[2]: value for key, value in logits.items() if key.startswith(f"{name}/")}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")
        assert value.std() > 1e-3


def test_an_imported_bert_says_what_transformers_says(logits):
    """Its logits in Transformers, of the words in the order of our dictionary."""
    with torch.no_grad():
        found = loaded("imported", None)(logits["imported_from/tokens"])[0]
    torch.testing.assert_close(found, logits["imported_from/words"], rtol=1e-4, atol=1e-5)
