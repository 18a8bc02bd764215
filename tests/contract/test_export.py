"""What 69687301 exported loads by today's classes and by `tupe import`, and computes what it computed there."""

import zipfile

import numpy as np
import pytest
import torch

from tests.contract.aliases import exported_classes, import_exported, load
from tests.contract.data import FIXTURES, PAD, sentences, write_dictionaries
from tests.contract.equations import SYSTEMS
from tests.contract.test_old_checkpoints import HEAD, outputs

KINDS = {"fine_tuned": "SequenceClassification", "spans": "QuestionAnswering"}
NAMES = [*(name for name in SYSTEMS if name != "tupe"), "segments", "half", "prenorm", *KINDS]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Weights and configurations, and no code."""
    folder = tmp_path_factory.mktemp("exported")
    with zipfile.ZipFile(FIXTURES / "exported.zip") as file:
        file.extractall(folder)
    with np.load(FIXTURES / "exported.npz") as arrays:
        return folder, {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert expected.std() > 1e-3


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_by_the_classes_of_today(name, exported):
    folder, logits = exported
    model = exported_classes()[KINDS.get(name, "MaskedLM")].from_pretrained(folder / name).eval()
    tokens = sentences(13, 8, 2)
    kept = tokens != PAD
    found = model(input_ids=tokens, attention_mask=kept.long())
    if name == "spans":
        close(torch.stack((found.start_logits, found.end_logits))[:, kept], logits["spans/spans"])
    elif name == "fine_tuned":
        close(found.logits, logits[f"{name}/{HEAD}"])
        assert model.config.id2label == {0: "no", 1: "perhaps", 2: "yes"}
    else:
        close(found.logits[kept], logits[f"{name}/words"])


@pytest.mark.parametrize("name", NAMES)
def test_by_the_import(name, exported, tmp_path):
    folder, logits = exported
    import_exported(folder / name, tmp_path / "model.pt")
    found = outputs(load(tmp_path / "model.pt", write_dictionaries(tmp_path)))
    own = {"spans": "spans", "fine_tuned": HEAD}.get(name, "words")
    for key in (own, "features"):
        close(found[key], logits[f"{name}/{key}"])
