"""Opened checkpoints: read once, checked, and built with the settings that were given."""

import pytest
import torch

from tests.samples import write_task
from tupe import safe_load as module
from tupe.checkpoints.load import open_checkpoint
from tupe.cli.main import main
from tupe.errors import UserError


def test_settings_reach_the_task_or_are_refused(make_checkpoint, corpus, tmp_path):
    make_checkpoint(tmp_path / "best.pt", spans=True)
    state = torch.load(tmp_path / "best.pt", weights_only=True)
    del state["cfg"]["task"]["max_answer"]
    torch.save(state, tmp_path / "best.pt")
    _, task = open_checkpoint(tmp_path / "best.pt").model(corpus, max_answer=3, doc_stride=5)
    assert (task.cfg.max_answer, task.cfg.doc_stride, task.cfg.max_query) == (3, 5, 8)
    with pytest.raises(UserError, match="tupe_question_answering, has no setting max_anser"):
        open_checkpoint(tmp_path / "best.pt").model(corpus, max_anser=3)


def test_a_number_is_none_of_the_classes(make_checkpoint, tmp_path):
    make_checkpoint(tmp_path / "best.pt", num_classes=1, regression=True)
    opened = open_checkpoint(tmp_path / "best.pt")
    opened.check_classes(tmp_path)
    (tmp_path / "label").mkdir()
    (tmp_path / "label/dict.txt").write_text("0 1\n1 1\n")
    with pytest.raises(UserError, match=r"best\.pt predicts a number, but .* has classes: give the task that it was"):
        opened.check_classes(tmp_path)


def changed(path, change):
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


@pytest.mark.parametrize("change", [lambda head: {}, lambda head: {"weight": head[:1]}])
def test_a_head_that_the_file_lacks_is_no_new_one(change, make_checkpoint, corpus, tmp_path):
    make_checkpoint(tmp_path / "best.pt", spans=True)

    def without(state):
        state["model"] |= {f"span_head.{name}": t for name, t in change(state["model"].pop("span_head.weight")).items()}

    changed(tmp_path / "best.pt", without)
    with pytest.raises(UserError, match=r"has no span_head\.weight \(2, \d+\), which its task needs"):
        open_checkpoint(tmp_path / "best.pt").model(corpus)


def test_a_head_of_another_kind_is_not_replaced_by_a_new_one(make_checkpoint, tmp_path):
    task = write_task(tmp_path / "mood")
    make_checkpoint(tmp_path / "best.pt", num_classes=2, of=task / "input0")
    changed(tmp_path / "best.pt", lambda state: state["cfg"]["model"].update(linear_heads=True))
    with pytest.raises(UserError, match=r"best\.pt has classification_heads\.\S+, which a model with its linear_heads"):
        open_checkpoint(tmp_path / "best.pt").model(task)


def test_weights_of_8_bits_are_no_weights(make_checkpoint, tmp_path):
    make_checkpoint(tmp_path / "best.pt")
    changed(tmp_path / "best.pt", lambda state: state["model"].update({n: t.char() for n, t in state["model"].items()}))
    with pytest.raises(UserError, match=r"best\.pt does not hold the weights of the \d layers"):
        open_checkpoint(tmp_path / "best.pt")


def test_the_model_is_built_from_what_was_read(make_checkpoint, corpus, tmp_path):
    """The file may be gone; what was read stays as it was, and gives the same model twice."""
    expected = make_checkpoint(tmp_path / "best.pt")
    opened = open_checkpoint(tmp_path / "best.pt")
    before = {name: value.clone() for name, value in opened.weights.items()}
    (tmp_path / "best.pt").write_bytes(b"another file")
    for _ in range(2):
        model, task = opened.model(corpus)
        for name, value in expected.state_dict().items():
            assert torch.equal(model.state_dict()[name], value)
    assert task.cfg.data == str(corpus)
    assert opened.task["data"] != str(corpus)
    assert before.keys() == opened.weights.keys()
    assert (opened.updates, str(opened)) == (0, str(tmp_path / "best.pt"))
    assert open_checkpoint(opened) is opened


@pytest.mark.parametrize("command", ["export", "describe", "extend-positions"])
def test_a_command_reads_its_checkpoint_once(command, make_checkpoint, corpus, tmp_path, monkeypatch):
    path, reads, load = tmp_path / "best.pt", [], torch.load
    make_checkpoint(path)
    monkeypatch.setattr(module.torch, "load", lambda file, **options: reads.append(file) or load(file, **options))
    arguments = {"export": [corpus, tmp_path / "out"], "describe": [], "extend-positions": [48, tmp_path / "longer.pt"]}
    assert main([command, str(path), *map(str, arguments[command])]) == 0
    assert reads == [str(path)]


@pytest.mark.parametrize("command", ["export", "describe", "extend-positions", "average-checkpoints"])
def test_weights_that_are_nan_are_named(command, make_checkpoint, corpus, tmp_path, capsys):
    path, name = tmp_path / "diverged.pt", "encoder.sentence_encoder.layers.1.fc1.bias"
    make_checkpoint(path)
    changed(path, lambda state: state["model"][name].fill_(torch.nan))
    out = str(tmp_path / "out.pt")
    arguments = {
        "export": [path, corpus, out],
        "describe": [path],
        "extend-positions": [path, 48, out],
        "average-checkpoints": [out, path],
    }
    assert main([command, *map(str, arguments[command])]) == 1
    assert f"error: {path} holds weights that are NaN or infinite, first {name}: " in capsys.readouterr().err
    assert not (tmp_path / "out.pt").exists()


@pytest.mark.parametrize("fields", [{"encoder_attention_heads": 0}, {"encoder_layers": -1}])
def test_sizes_that_no_model_has_are_refused(fields, make_checkpoint, tmp_path):
    make_checkpoint(tmp_path / "best.pt")
    changed(tmp_path / "best.pt", lambda state: state["cfg"]["model"].update(fields))
    ((name, value),) = fields.items()
    with pytest.raises(UserError, match=rf"best\.pt: cfg\.model: {name} is {value}, which no model has"):
        open_checkpoint(tmp_path / "best.pt")
