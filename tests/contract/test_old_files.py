"""Models have the parameters that they had at 69687301, whose files load and compute what they computed there."""

import json
import re
import zipfile

import numpy as np
import pytest
import torch

from tests.contract.aliases import Seq2SeqModel, build, exported_class, in_this_process, load, opened, write_checkpoint
from tests.contract.fixtures.cases import CASES, MODELS, MODERN, SMALL, SYSTEMS
from tests.contract.fixtures.data import FIXTURES, PAD, sentences, write_dictionaries
from tests.contract.test_equations import large

CHECKPOINTS = ("pretrained", "hydra", "window", "deberta", "linformer", "cross", "shaw", "fine_tuned", "spans",
               "electra", "translator", "release")  # fmt: skip
KINDS = {"fine_tuned": "SequenceClassification", "spans": "QuestionAnswering"}  # the others are masked language models
EXPORTS = [*(name for name in SYSTEMS if name != "tupe"), "segments", "half", "prenorm", *KINDS]
HEAD = "sentence_classification_head"
TOKENS = sentences(13, 8, 2)
KEPT = TOKENS != PAD


def shapes(model):
    """name -> `[number, *shape]`, where the layers of a stack are one entry, of their number."""
    found = {}
    for name, tensor in model.state_dict().items():
        name, shape = re.sub(r"layers\.\d+\.", "layers.*.", name), [*tensor.shape]
        number, *before = found.get(name, [0, *shape])
        assert before == shape
        found[name] = [number + 1, *shape]
    return found


@pytest.mark.parametrize("family,name", [(family, name) for family, models in MODELS.items() for name in models])
def test_names_and_shapes(family, name):
    expected, (arch, fields) = json.loads((FIXTURES / "state_dicts.json").read_text())[family], MODELS[family][name]
    assert shapes(build(arch, **fields)) == {**expected["common"], **expected["own"][name]}


def then(file, name):
    """kind of output -> what 69687301 computed."""
    with np.load(FIXTURES / file) as arrays:
        names = [key for key in arrays.files if key.startswith(f"{name}/")]
        return {key.partition("/")[2]: torch.from_numpy(arrays[key]) for key in names}


@torch.no_grad()
def now(model):
    """kind of output -> all that a model says of `TOKENS`."""
    if not hasattr(model, "classification_heads"):
        return {"words": model(TOKENS, None, TOKENS.roll(1, 1)[:, :8])[0]}
    features = model(TOKENS, features_only=True)[0]
    found = {"words": model(TOKENS)[0][KEPT], "features": features[KEPT]}
    if hasattr(model, "discriminator_head"):
        found["replaced"] = model.discriminator_head(features[KEPT])
    if hasattr(model, "span_head"):
        found["spans"] = torch.stack(model.span_head(features))[:, KEPT]
    for name in model.classification_heads:
        found[name] = model(TOKENS, features_only=True, classification_head_name=name)[0]
    return found


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert all(value.std() > 1e-3 for value in (expected.values() if isinstance(expected, dict) else [expected]))


def loaded(name, data):
    """A checkpoint of the fixtures; an imported one has a dictionary of its own."""
    path = FIXTURES / f"checkpoints/{name}.pt"
    if name == "translator":
        return opened(path, data, Seq2SeqModel).models[0]
    return load(path, FIXTURES / "imported" if name == "imported" else data)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoint(name, tmp_path):
    close(now(loaded(name, write_dictionaries(tmp_path))), then("logits.npz", name))


def test_an_imported_bert_says_what_transformers_says():
    """Its logits in Transformers, of the words in the order of our dictionary."""
    expected = then("logits.npz", "imported_from")
    with torch.no_grad():
        close(loaded("imported", None)(expected["tokens"])[0], expected["words"])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Weights and configurations, and no code."""
    folder = tmp_path_factory.mktemp("exported")
    with zipfile.ZipFile(FIXTURES / "exported.zip") as file:
        file.extractall(folder)
    return folder


@pytest.mark.parametrize("name", EXPORTS)
@torch.no_grad()
def test_export_by_the_classes_of_today(name, exported):
    model = exported_class(KINDS.get(name, "MaskedLM")).from_pretrained(exported / name).eval()
    found, expected = model(input_ids=TOKENS, attention_mask=KEPT.long()), then("exported.npz", name)
    if name == "spans":
        close(torch.stack((found.start_logits, found.end_logits))[:, KEPT], expected["spans"])
    elif name == "fine_tuned":
        close(found.logits, expected[HEAD])
        assert model.config.id2label == {0: "no", 1: "perhaps", 2: "yes"}
    else:
        close(found.logits[KEPT], expected["words"])


@pytest.mark.parametrize("name", EXPORTS)
def test_export_by_the_import(name, exported, tmp_path):
    in_this_process("import", exported / name, tmp_path / "model.pt")
    found, expected = now(load(tmp_path / "model.pt", write_dictionaries(tmp_path))), then("exported.npz", name)
    for key in ({"spans": "spans", "fine_tuned": HEAD}.get(name, "words"), "features"):
        close(found[key], expected[key])


REFUSED = {"attention_window", "content_terms", "embedding_dim", "no_untied_layer_norm"}  # by an export


@pytest.mark.parametrize("name", [*(n for n, (_, fields) in CASES.items() if not REFUSED & {*fields}), *MODERN])
@torch.no_grad()
def test_export_of_today(name, tmp_path):
    """Its classes and the import read every field that changes what a model computes."""
    (system, fields), data = {**CASES, **MODERN}[name], write_dictionaries(tmp_path / "data")
    model = large(build(f"{system}_tiny", **SMALL, **fields)).float()
    write_checkpoint(tmp_path / "model.pt", model, f"{system}_tiny")
    in_this_process("export", tmp_path / "model.pt", data, tmp_path / "exported", "--no-tokenizer")
    there = exported_class("MaskedLM").from_pretrained(tmp_path / "exported").eval()
    close(there(input_ids=TOKENS, attention_mask=KEPT.long()).logits[KEPT], model(TOKENS)[0][KEPT])
    in_this_process("import", tmp_path / "exported", tmp_path / "imported.pt")
    close(load(tmp_path / "imported.pt", data)(TOKENS)[0][KEPT], model(TOKENS)[0][KEPT])
