"""ONNX graphs of exported models: equal to PyTorch at every length, small where asked, and never there when wrong."""

import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from tests.samples import write_corpus, write_dictionary, write_task
from tupe.checkpoints import to_onnx
from tupe.cli.main import main

onnxruntime = pytest.importorskip("onnxruntime")
ours = pytest.importorskip("tupe.transformers")

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


def check(folder, model, *names):
    """The graph's outputs are the model's."""
    session = onnxruntime.InferenceSession(str(folder / "onnx/model.onnx"), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == list(names)
    for batch, length in ((1, 1), (2, 2), (5, 11), (1, model.config.max_position_embeddings)):
        ids = torch.randint(4, 25, (batch, length))
        mask = torch.ones_like(ids)
        mask[-1, (length + 1) // 2 :] = 0
        with torch.no_grad():
            found = model(ids, attention_mask=mask)
        graph = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
        for name, output in zip(names, graph):
            wanted = found[name].numpy()
            assert np.abs(output - wanted).max() < 1e-5 * max(1, np.abs(wanted).max()), (name, length)


def scores_in(out):
    """What the command printed: graph -> metric -> percent."""
    lines = re.findall(r"^(pytorch|onnx|int8): (.*)$", out, re.MULTILINE)
    metric = re.compile(r"([a-z][\w ]*) (-?[\d.]+)")
    return {graph: {name: float(value) for name, value in metric.findall(line)} for graph, line in lines}


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
        *((name, None) for name in ("tupe_r", "shaw", "deberta", "bert_ad", "linformer", "diet_abs_lin", "rope")),
    ],
)
def test_graph_is_the_model(system, task, make_checkpoint, data, tmp_path, capsys):
    """A system for each way of the graph: all terms that are added to the logits are one buffer in it, as tupe_r's."""
    fields = {} if system == "tupe_r" else {"encoder_layers": 1}  # one model shows that layers follow each other
    make_checkpoint(tmp_path / "best.pt", f"{system}_tiny", 3 if task else None, of=data / "corpus", **fields)
    data, folder = data / (task or "corpus"), tmp_path / "exported"
    assert main(["export", str(tmp_path / "best.pt"), str(data), str(folder), "--no-tokenizer"]) == 0
    assert main(["export-onnx", str(folder), "--data", str(data), *(["--int8"] if task else [])]) == 0
    out = capsys.readouterr().out
    assert float(re.search(r"from PyTorch: (\S+) of", out)[1]) <= 1e-5
    scores = scores_in(out)
    assert scores["onnx"] == scores["pytorch"]
    assert [*scores["onnx"]] == (["accuracy", "macro_f1", "mcc"] if task else ["accuracy of masked words"])
    assert ("int8" in scores) == bool(task)
    assert "give --data" not in out
    sizes = [path.stat().st_size for path in sorted((folder / "onnx").iterdir())]
    assert len(sizes) == (2 if task else 1)

    auto = ours.TupeForSequenceClassification if task else ours.TupeForMaskedLM
    check(folder, auto.from_pretrained(folder).eval(), "logits")


@pytest.mark.parametrize(
    ("auto", "names"),
    [("TupeModel", ["last_hidden_state"]), ("TupeForQuestionAnswering", ["start_logits", "end_logits"])],
)
def test_graph_of_features_and_answers(auto, names, tmp_path, capsys):
    torch.manual_seed(0)
    model = getattr(ours, auto)(ours.TupeConfig(vocab_size=25, max_position_embeddings=24, **SMALL)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(tmp_path)
    assert main(["export-onnx", str(tmp_path)]) == 0
    assert "give --data" not in capsys.readouterr().out, "without eight bits the scores are the model's"
    check(tmp_path, model, *names)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    config = ours.TupeConfig(vocab_size=40, max_position_embeddings=8, num_labels=2, **SMALL)
    ours.TupeForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("auto", "kind", "metric"),
    [
        ("TupeForTokenClassification", None, "accuracy"),
        ("TupeForSequenceClassification", "multi_label_classification", "micro_f1"),
    ],
)
def test_classifiers_of_words_and_of_several_labels(auto, kind, metric, tmp_path, capsys):
    """The graph says what the model says, and its score is that of predictions by hand."""
    torch.manual_seed(1)
    config = ours.TupeConfig(vocab_size=25, max_position_embeddings=12, num_labels=3, problem_type=kind, **SMALL)
    model, folder, task = getattr(ours, auto)(config).eval(), tmp_path / "model", tmp_path / "own"
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=1.0)
    model.save_pretrained(folder)
    longest = 10 if kind is None else 15  # beyond 10, words are read in windows, and other texts cut
    texts = [[4 + (7 * row + i) % 20 for i in range(min(3 + row, longest))] for row in range(12)]
    if kind is None:  # a class at the first token of each word
        labels = [[4 + (row + i) % 3 if i % 2 == 0 else 1 for i in range(len(text))] for row, text in enumerate(texts)]
    else:
        labels = [[4 + label for label in range(3) if (row >> label) & 1] for row in range(12)]
    for side, rows in (("input0", texts), ("label", labels)):
        (task / side).mkdir(parents=True)
        builder = MMapIndexedDatasetBuilder(str(task / side / "valid.bin"), dtype=np.uint16)
        for row in rows:
            builder.add_item(torch.tensor([*row, 2]))
        builder.finalize(str(task / side / "valid.idx"))
    write_dictionary(task / "input0/dict.txt")
    write_dictionary(task / "label/dict.txt", "abc")
    assert main(["export-onnx", str(folder), "--int8", "--data", str(task)]) == 0
    scores = scores_in(capsys.readouterr().out)
    assert scores["onnx"] == scores["pytorch"] and "int8" in scores
    right, all_ = 0, 0
    for text, label in zip(texts, labels):
        with torch.no_grad():
            found = model(torch.tensor([[0, *text[:10], 2]])).logits[0]
        if kind is None:
            for word in range(0, min(10, len(text)), 2):
                right, all_ = right + int(found[word + 1].argmax() == label[word] - 4), all_ + 1
        else:
            said = {int(n) + 4 for n in found.gt(0).nonzero().flatten()}
            right, all_ = right + 2 * len(said & set(label)), all_ + len(said) + len(label)
    assert scores["pytorch"][metric] == pytest.approx(100 * right / all_, abs=0.01) and 0 < right < all_
    check(folder, model, "logits")


def test_a_graph_that_differs_is_not_written(small, monkeypatch, capsys):
    monkeypatch.setattr(to_onnx, "TOLERANCE", -1.0)
    assert main(["export-onnx", str(small)]) == 1
    assert re.search(r"differs from the model by .* nothing was written", capsys.readouterr().err)
    assert not list(small.glob("onnx/*"))


def test_eight_bits_without_a_score_are_said(small, tmp_path, capsys):
    folder = shutil.copytree(small, tmp_path / "small")
    assert main(["export-onnx", str(folder), "--int8"]) == 0
    assert "give --data to see what that does to the score" in capsys.readouterr().out


def test_wrong_input_is_one_sentence(small, data, tmp_path, capsys, monkeypatch):
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    for name, fields in (
        ("type", {"hidden_size": "8"}),
        ("activation", {"hidden_act": "none"}),
        ("layers", {"num_hidden_layers": 4}),
        ("positions", {"max_position_embeddings": 2}),
    ):
        shutil.copytree(small, tmp_path / name)
        content = {**json.loads((small / "config.json").read_text()), **fields}
        (tmp_path / name / "config.json").write_text(json.dumps(content))
    for arguments, wanted in (
        ([tmp_path / "none"], r"there is no .*config\.json"),
        ([tmp_path], "names the model 'BertModel', which is none of ours"),
        ([tmp_path / "type"], "cannot be loaded: hidden_size is '8', but must be a whole number"),
        ([tmp_path / "activation"], "cannot be loaded: hidden_act is 'none'"),
        ([tmp_path / "layers"], r"are not of the model in its config\.json, first tupe\.layers\..*: give files"),
        ([tmp_path / "positions"], r"are not of the model in its config\.json, first tupe\.\S+: give files"),
        ([small, "--data", tmp_path], "there is no split valid"),
        ([small, "--data", data / "MNLI"], "MNLI has the classes a, b, c, but the model LABEL_0, LABEL_1: give"),
    ):
        assert main(["export-onnx", *map(str, arguments)]) == 1
        err = capsys.readouterr().err
        assert re.fullmatch(r"error: [^\n]+\n", err), err
        assert re.search(wanted, err), err
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main(["export-onnx", str(small)]) == 1
    assert "an ONNX graph needs onnxruntime: pip install" in capsys.readouterr().err
