"""Released models against the numbers of fairseq's READMEs, where `TUPE_PRETRAINED` names a folder that has them.

    TUPE_PRETRAINED=FOLDER python -m pytest tests/checkpoints/foreign/test_real.py

The folder has those that are to be tested, unpacked as fairseq calls them (`roberta.base`, `roberta.large`,
`roberta.large.mnli`, `xlmr.base`, `xlmr.large`, `camembert.v0`), and for RoBERTa `gpt2_bpe` with `encoder.json` and
`vocab.bpe`.
"""

import os
from pathlib import Path

import pytest
import torch

from tests.checkpoints.foreign.test_maps import opened
from tupe.checkpoints.foreign.importing import import_model

FOLDER = os.environ.get("TUPE_PRETRAINED")
LABELS = ["contradiction", "neutral", "entailment"]


@pytest.fixture
def real(tmp_path):
    """`real("roberta.base")`: the hub on its import, whose outputs were those of fairseq's model."""

    def load(name, **options):
        if FOLDER is None:
            pytest.skip("TUPE_PRETRAINED names no folder of released models")
        folder = Path(FOLDER, name)
        if not folder.is_dir():
            pytest.skip(f"there is no {folder}")
        bpe = Path(FOLDER, "gpt2_bpe") if name.startswith("roberta") else None
        import_model(folder, tmp_path / name, bpe=bpe, compare=True, **options)
        return opened(tmp_path / name)

    return load


@pytest.mark.parametrize("name", ["roberta.base", "roberta.large"])
def test_real_roberta(name, real):
    hub = real(name)
    tokens = hub.encode("Hello world!")
    assert tokens.tolist() == [0, 31414, 232, 328, 2]
    assert hub.extract_features(tokens).shape == (1, 5, 1024 if name.endswith("large") else 768)
    assert hub.model.max_positions() == 512 and len(hub.task.source_dictionary) == 50_265


def test_real_mnli(real):
    hub = real("roberta.large.mnli", head_name="mnli", labels=LABELS)
    first = "Roberta is a heavily optimized version of BERT."
    for second, label in (("Roberta is not very optimized.", 0), ("Roberta is based on BERT.", 2)):
        assert hub.predict("mnli", hub.encode(first, second)).argmax().item() == label


@pytest.mark.parametrize("name", ["xlmr.base", "xlmr.large"])
def test_real_xlmr(name, real):
    hub = real(name)
    for text, numbers in {
        "Hello world!": [0, 35378, 8999, 38, 2],
        "你好，世界": [0, 6, 124084, 4, 3221, 2],
        "नमस्ते दुनिया": [0, 68700, 97883, 29405, 2],
        "مرحبا بالعالم": [0, 665, 193478, 258, 1705, 77796, 2],
        "Bonjour le monde": [0, 84602, 95, 11146, 2],
    }.items():
        assert hub.encode(text).tolist() == numbers
    assert len(hub.task.source_dictionary) == 250_002


def test_real_camembert(real):
    hub = real("camembert.v0", language="fr")
    found = hub.fill_mask("Le camembert est <mask> :)", topk=3)
    assert [word.strip() for _, _, word in found] == ["délicieux", "excellent", "succulent"]
    assert [share for _, share, _ in found] == pytest.approx([0.4909, 0.1056, 0.0345], abs=1e-4)
    with torch.no_grad():
        assert hub.extract_features(hub.encode("J'aime le camembert !")).shape == (1, 10, 768)
