"""ONNX graphs of exported models: equal to PyTorch at every length, and never there when wrong."""

import re

import pytest
import torch

from tests.samples import write_corpus, write_task
from tupe.cli.main import main
from tupe.hf import onnx as to_onnx

onnxruntime = pytest.importorskip("onnxruntime")
ours = pytest.importorskip("tupe.hf")

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


def outputs(folder):
    session = onnxruntime.InferenceSession(str(folder / "onnx/model.onnx"), providers=["CPUExecutionProvider"])
    return [output.name for output in session.get_outputs()]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with `corpus` and the task `MNLI`, of 25 symbols."""
    folder = tmp_path_factory.mktemp("data")
    write_corpus(folder / "corpus")
    write_task(folder / "MNLI", ("a", "b", "c"))
    return folder


@pytest.mark.parametrize(
    ("system", "task"),
    [
        ("diet_rel", "MNLI"),
        *(
            (name, None)
            for name in ("tupe_r", "shaw", "deberta", "bert_ad", "linformer", "diet_abs_lin", "rope", "pope")
        ),
        ("rope_modern", None),
    ],
)
def test_graph_is_the_model(system, task, make_checkpoint, data, tmp_path):
    """A system for each kind of term; terms that are only added to the logits are like tupe_r's."""
    # two models show that layers follow each other, one of them with a window that padding exceeds
    fields = {"tupe_r": {"attention_backend": "flex"}, "rope_modern": {"attention_window": 2}}
    fields = fields.get(system, {"encoder_layers": 1})
    make_checkpoint(tmp_path / "best.pt", f"{system}_tiny", 3 if task else None, of=data / "corpus", **fields)
    data, folder = data / (task or "corpus"), tmp_path / "exported"
    assert main(["export", str(tmp_path / "best.pt"), str(data), str(folder), "--no-tokenizer"]) == 0
    assert main(["export-onnx", str(folder)]) == 0
    assert outputs(folder) == ["logits"]


@pytest.mark.parametrize(
    ("auto", "names"),
    [("TupeModel", ["last_hidden_state"]), ("TupeForQuestionAnswering", ["start_logits", "end_logits"])],
)
def test_graph_of_features_and_answers(auto, names, tmp_path):
    torch.manual_seed(0)
    model = getattr(ours, auto)(ours.TupeConfig(vocab_size=25, max_position_embeddings=24, **SMALL)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(tmp_path)
    assert main(["export-onnx", str(tmp_path)]) == 0
    assert outputs(tmp_path) == names


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    config = ours.TupeConfig(vocab_size=40, max_position_embeddings=8, num_labels=2, **SMALL)
    ours.TupeForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_graph_that_differs_is_not_written(small, monkeypatch, capsys):
    monkeypatch.setattr(to_onnx, "TOLERANCE", -1.0)
    monkeypatch.setattr("torch.onnx._internal.exporter._onnx_program._LARGE_MODEL_THRESHOLD", 0)  # weights apart
    assert main(["export-onnx", str(small)]) == 1
    assert re.search(r"differs from the model by ", capsys.readouterr().err)
    assert not list(small.glob("onnx/*"))
