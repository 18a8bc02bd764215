"""From a checkpoint to a folder of Transformers and back, by the commands."""

import json
import os
import subprocess
import sys

import pytest
import torch

from tests.commands import ROOT
from tests.conftest import write
from tests.samples import HEAD
from tupe.cli.main import main
from tupe.models import TupeModel

pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")


@pytest.fixture(scope="module")
def pretrained(make_checkpoint, tmp_path_factory):
    """A checkpoint, its model, and the folder that `tupe export` makes of it."""
    folder = tmp_path_factory.mktemp("pretrained")
    return folder / "checkpoint.pt", make_checkpoint(folder / "checkpoint.pt"), folder / "exported"


@pytest.fixture(scope="module")
def exported(pretrained, corpus):
    assert main(["export", str(pretrained[0]), str(corpus), str(pretrained[2])]) == 0
    return pretrained[2]


def test_a_process_without_fairseq_uses_it(exported, pretrained, tmp_path):
    environment = {**os.environ, "PYTHONPATH": "", "HF_HOME": str(tmp_path)}
    command = [sys.executable, ROOT / "tests/hf/use.py", exported, tmp_path]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    found = torch.load(tmp_path / "logits.pt")
    with torch.no_grad():
        wanted = pretrained[1](found["ids"])[0]
    kept = found["ids"].ne(1)
    assert (found["logits"] - wanted)[kept].abs().max() < 1e-5 * max(1, wanted.abs().max())
    assert seen["same bits"] and seen["trained"] and seen["features"] < 1e-6
    assert seen["evaluation"] > 0
    assert seen["modules"] == [] and seen["filled"] == 5
    assert seen["classes again"] == "TupeForSequenceClassification"
    assert [x["label"] in ("LABEL_0", "LABEL_1") for x in seen["classification"]] == [True, True]
    length = found["ids"].shape[1]
    assert seen["AutoModelForQuestionAnswering"] == [[2, length]] * 2
    assert seen["AutoModelForTokenClassification"] == [[2, length, 2]]
    assert seen["sentences"][0] == [2, 16]
    assert seen["sentences"][1] < 1e-6


@pytest.mark.parametrize(("task", "labels"), [("MNLI", ["neutral", "yes", "no"]), ("STS-B", [])])
def test_fine_tuned_there_and_back(task, labels, make_checkpoint, corpus, tmp_path):
    from sentence_transformers import CrossEncoder
    from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

    import tupe.hf  # noqa: F401

    data, out, num_classes = tmp_path / task, tmp_path / "exported", len(labels) or 1
    write(data / "input0/dict.txt", (corpus / "dict.txt").read_text().splitlines())
    if labels:
        write(data / "label/dict.txt", [f"{label} 1" for label in labels])
    fields = {"segment": "per_head", "encoder_normalize_before": True, "sharing": "none"}
    model = make_checkpoint(
        tmp_path / "best.pt", "tupe_a_tiny", num_classes, num_classes == 1, data=f"gone/{task}", **fields
    )
    result = {"task": task, "metric": "mcc", "score": 61.5, "seed": 3, "lr": 2e-5, "epoch": 2}
    (tmp_path / "result.json").write_text(json.dumps(result))
    arguments = ["export", str(tmp_path / "best.pt"), str(data), str(out), "--corpus", str(corpus)]
    assert main([*arguments, "--license", "mit"]) == 0
    assert len({(out / name).stat().st_mode for name in ("config.json", "model.safetensors")}) == 1
    classifier = AutoModelForSequenceClassification.from_pretrained(out).eval()
    ids = torch.randint(4, 90, (2, 9))
    with torch.no_grad():
        wanted = model(ids, features_only=True, classification_head_name=HEAD)[0]
    assert list(classifier.config.id2label.values()) == (labels or ["LABEL_0"])
    assert classifier.config.problem_type == ("regression" if num_classes == 1 else "single_label_classification")
    assert isinstance(CrossEncoder(str(out), device="cpu").activation_fn, torch.nn.Identity)
    card = (out / "README.md").read_text()
    assert "license: mit\n" in card
    assert "      value: 61.5" in card
    assert f"name: {task}\n" in card
    AutoModelForMaskedLM.from_pretrained(out)  # its head is there too

    assert main(["import", str(out), str(tmp_path / "back.pt")]) == 0
    before, after = (torch.load(tmp_path / name, weights_only=True) for name in ("best.pt", "back.pt"))
    assert all(torch.equal(before["model"][name], after["model"][name]) for name in before["model"])
    assert bool(after["cfg"]["task"].pop("labels_sha256")) == bool(labels)
    assert before["cfg"]["task"] == {**after["cfg"]["task"], "data": f"gone/{task}"}
    classifier.save_pretrained(tmp_path / "again")  # without the language model's head
    assert main(["import", str(tmp_path / "again"), str(tmp_path / "new.pt")]) == 0
    assert not any("lm_head" in name for name in torch.load(tmp_path / "new.pt", weights_only=True)["model"])
    again = TupeModel.from_pretrained(str(tmp_path), "new.pt", str(data.resolve()), bpe=None)
    with torch.no_grad():
        assert torch.equal(again.model.eval()(ids, features_only=True, classification_head_name=HEAD)[0], wanted)


def test_answers_there_and_back(make_checkpoint, corpus, tmp_path, capsys):
    make_checkpoint(tmp_path / "best.pt", spans=True, data="gone/SQuAD")
    result = {"task": "SQuAD", "metric": "f1", "score": 81.5, "seed": 3, "lr": 3e-5, "epoch": 2}
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert main(["export", str(tmp_path / "best.pt"), str(corpus), str(tmp_path / "exported")]) == 0
    assert "load it with: AutoModelForQuestionAnswering.from_pretrained(" in capsys.readouterr().out
    card = (tmp_path / "exported/README.md").read_text()
    assert "name: SQuAD\n      type: squad\n" in card
    assert "Fine-tuned on SQuAD: f1 81.50 of the development set" in card
    assert main(["import", str(tmp_path / "exported"), str(tmp_path / "back.pt")]) == 0
    before, after = (torch.load(tmp_path / name, weights_only=True) for name in ("best.pt", "back.pt"))
    assert before["model"].keys() == after["model"].keys()
    assert all(torch.equal(before["model"][name], after["model"][name]) for name in before["model"])
    assert {**before["cfg"]["task"], "data": "", "seed": 1}.items() <= after["cfg"]["task"].items()  # it still answers
