"""Models of fairseq and Transformers say the same when they are ours, on the same tokens."""

import json
import pickle
import shutil
import types

import pytest
import torch

from tests.checkpoints.foreign.conftest import POSITIONS, in_2019
from tests.conftest import write
from tupe.checkpoints.foreign import fairseq, transformers
from tupe.checkpoints.foreign.importing import import_model
from tupe.checkpoints.foreign.names import FAMILIES
from tupe.checkpoints.foreign.names import POSITIONS as TABLE
from tupe.checkpoints.load import open_checkpoint
from tupe.cli.main import main
from tupe.data.glue.tasks import TASKS
from tupe.models import TupeModel
from tupe.safe_load import safe_load
from tupe.util import UserError

#: kind -> fields of its configuration that have another effect than the defaults.
FIELDS = {
    "one type": {"type_vocab_size": 1},
    "untied": {"tie_word_embeddings": False},
    "narrow": {"embedding_size": 8},
    "eps": {"layer_norm_eps": 1e-3},
    "tanh": {"hidden_act": "gelu_new"},
}
CASES = [(kind, {}) for kind in FAMILIES]
CASES += [(kind, FIELDS["one type"]) for kind in ("roberta", "bert")]
CASES += [("roberta", FIELDS["untied"]), ("bert", FIELDS["untied"]), ("bert", FIELDS["tanh"]), ("mpnet", FIELDS["eps"])]
CASES += [("electra", {**FIELDS["narrow"], "layer_norm_eps": 1e-5})]


PRE_NORM = {"encoder_normalize_before": True}


def opened(out):
    """The hub on an import; of one with a head, on a prepared task, whose dictionaries it needs."""
    data = out
    if "num_classes" in safe_load(out / "checkpoint.pt")["cfg"]["task"]:
        data = out.parent / "task"
        (data / "input0").mkdir(parents=True, exist_ok=True)
        (data / "label").mkdir(exist_ok=True)
        shutil.copy(out / "dict.txt", data / "input0/dict.txt")
        write(data / "label/dict.txt", ["entailment 1", "neutral 1", "contradiction 1"])
    return TupeModel.from_pretrained(str(out), "checkpoint.pt", str(data.resolve())).eval()


@pytest.mark.parametrize(("kind", "fields"), CASES)
def test_transformers(kind, fields, saved, tmp_path):
    folder, _ = saved(kind, **fields)
    lines = import_model(folder, tmp_path / "out", compare=True)
    assert any(line.startswith("verified") for line in lines)
    hub = opened(tmp_path / "out")
    assert hub.model.args.max_positions == POSITIONS
    assert hub.model.args.pair_separators == (1 if kind in ("bert", "distilbert", "electra", "deberta-v2") else 2)
    assert bool(hub.model.args.untie_weights_roberta) == (fields == FIELDS["untied"])


def relative_key(module, query, key, value, attention_mask, scaling, **_):
    """Attention of Transformers 4 with `position_embedding_type` `relative_key`, written out cell by cell."""
    length, most = query.shape[2], module.distance_embedding.weight.shape[0] // 2 + 1
    scores = query @ key.transpose(2, 3)
    for i in range(length):
        for j in range(length):
            scores[:, :, i, j] += query[:, :, i] @ module.distance_embedding.weight[i - j + most - 1]
    weights = (scores * scaling + (0 if attention_mask is None else attention_mask)).softmax(-1)
    return (weights @ value).transpose(1, 2), weights


@pytest.mark.parametrize("types", [1, 2])
def test_relative_keys_of_bert(types, saved, tmp_path):
    """A BERT of Shaw et al.: vectors by distance in each layer, no positions at the input."""
    transformers = pytest.importorskip("transformers")
    folder, original = saved("bert", type_vocab_size=types)
    content = json.loads((folder / "config.json").read_text())
    with torch.no_grad():
        for layer in original.bert.encoder.layer:
            layer.attention.self.distance_embedding = torch.nn.Embedding(2 * POSITIONS - 1, 8)
    original.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({**content, "position_embedding_type": "relative_key"}))
    with torch.no_grad():
        original.bert.embeddings.position_embeddings.weight.zero_()
    transformers.AttentionInterface.register("relative_key", relative_key)
    original.set_attn_implementation("relative_key")

    lines = import_model(folder, tmp_path / "out")
    assert lines[0].startswith("model: bert of Transformers as shaw_base, 2 layers of width 16, 2 heads, 60 positions")
    assert "bert.embeddings" in next(line for line in lines if line.startswith("left behind"))
    hub, rows = opened(tmp_path / "out"), torch.tensor(by_row(folder, tmp_path / "out"))
    tokens = torch.tensor([[0, 9, 8, 7, 2, 11, 12, 2], [0, 5, 30, 31, 9, 10, 11, 2]])
    segments = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0] * 8]) * (types - 1)
    with torch.no_grad():
        theirs = original(rows[tokens], token_type_ids=segments).logits[..., rows]
        ours = hub.model(tokens)[0]
    assert (ours - theirs).abs().max() < 1e-5 < theirs.abs().max()


@pytest.mark.parametrize("kind", ["roberta", "bert", "electra", "mpnet", "distilbert"])
def test_an_encoder_alone(kind, saved, tmp_path):
    """Saved from the model without a head, whose names have no prefix; its head is this model's, untrained."""
    folder, _ = saved(kind, base=True)
    lines = import_model(folder, tmp_path / "out", compare=True)
    assert "untrained: the language-model head, which the folder lacks" in lines
    state = safe_load(tmp_path / "out/checkpoint.pt")["model"]
    assert not any(name.startswith("encoder.lm_head.") for name in state)
    tokens = torch.tensor([[0, 9, 8, 7, 2]])
    assert opened(tmp_path / "out").model(tokens)[0].shape == (
        1,
        5,
        len(opened(tmp_path / "out").task.source_dictionary),
    )


def test_a_discriminator_is_an_encoder(saved, tmp_path):
    folder, original = saved("electra", "ForPreTraining", embedding_size=8)
    lines = import_model(folder, tmp_path / "out")
    assert "left behind: discriminator_predictions.dense, discriminator_predictions.dense_prediction" in lines
    tokens = torch.tensor([[0, 9, 8, 7, 2]])
    rows = torch.tensor(by_row(folder, tmp_path / "out"))
    with torch.no_grad():
        ours = opened(tmp_path / "out").model(tokens, features_only=True)[0]
        theirs = original.electra(rows[tokens], token_type_ids=torch.zeros_like(tokens)).last_hidden_state
    assert (ours - theirs).abs().max() < 1e-5


@pytest.mark.parametrize("change", [dict, in_2019])
@pytest.mark.parametrize("options", [{}, {"untie_weights_roberta": True}, {"activation_fn": "relu"}, PRE_NORM])
def test_fairseq(change, options, released, tmp_path):
    folder, original = released(change, **options)
    import_model(folder, tmp_path / "out", compare=True)
    hub = opened(tmp_path / "out")
    tokens = torch.randint(4, len(hub.task.source_dictionary), (2, 30))
    tokens[:, 0], tokens[:, -1], tokens[0, 20:] = 0, 2, 1
    with torch.no_grad():
        found, wanted = hub.model(tokens)[0], original(tokens)[0]
    assert torch.equal(found[1], wanted[1]) or (found[1] - wanted[1]).abs().max() < 1e-6
    assert hub.model.args.max_positions == POSITIONS


def test_fairseq_without_the_tied_decoder(released, tmp_path):
    folder, _ = released(lambda state: {name: x for name, x in state.items() if name != "encoder.lm_head.weight"})
    assert any(line.startswith("verified on") for line in import_model(folder, tmp_path / "out", compare=True))


def test_an_option_of_2019_that_meant_the_embeddings(released, tmp_path):
    """`encoder_normalize_before` gave the embeddings their norm then; the layers were post-norm."""
    folder, original = released(in_2019)
    state = safe_load(folder / "model.pt")
    state["args"].encoder_normalize_before = True
    torch.save(state, folder / "model.pt")
    import_model(folder, tmp_path / "out", compare=True)
    tokens = torch.tensor([[0, 9, 8, 7, 2]])
    with torch.no_grad():
        assert torch.equal(opened(tmp_path / "out").model(tokens)[0], original(tokens)[0])


def test_positions_that_are_shifted_show(released, tmp_path, monkeypatch):
    """The rows that fairseq never uses, taken for the first positions, fail the comparison."""
    folder, _ = released()
    of = fairseq.from_fairseq

    def shifted(state):
        weights = of(state)
        name = "encoder.sentence_encoder.embed_positions.weight"
        return {**weights, TABLE: state[name][:-2]}

    monkeypatch.setattr(fairseq, "from_fairseq", shifted)
    with pytest.raises(UserError, match=r"The features of .* differ by"):
        import_model(folder, tmp_path / "out", compare=True)
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize("kind", ["roberta", "bert", "distilbert", "electra", "mpnet", "roberta-prelayernorm"])
def test_a_classification_head(kind, saved, tmp_path):
    labels = {"id2label": {0: "ENTAILMENT", 1: "neutral", 2: "contradiction"}}
    labels["label2id"] = {name: number for number, name in labels["id2label"].items()}
    folder, original = saved(kind, "ForSequenceClassification", **labels)
    lines = import_model(folder, tmp_path / "out", head_name="mnli", compare=True)
    assert "head differ by" in next(line for line in lines if line.startswith("verified"))
    hub = opened(tmp_path / "out")
    tokens = torch.tensor([[0, 9, 8, 7, 2]])
    rows = torch.tensor(by_row(folder, tmp_path / "out"))
    with torch.no_grad():
        ours = hub.model(tokens, features_only=True, classification_head_name="mnli")[0]
        theirs = original(rows[tokens]).logits
    head = next(line for line in lines if line.startswith("head"))
    assert "in the order of MNLI" in head
    order = [["entailment", "neutral", "contradiction"].index(name) for name in TASKS["MNLI"].classes]
    assert (ours - theirs[:, order]).abs().max() < 1e-5
    state = safe_load(tmp_path / "out/checkpoint.pt")
    assert state["cfg"]["task"]["_name"] == "tupe_sentence_prediction"
    assert state["cfg"]["task"]["num_classes"] == 3


def test_the_classes_of_a_head_are_compared(saved, tmp_path):
    """Class names are those of the folder, in its order: a task that numbers them otherwise swaps all predictions."""
    names = {0: "positive", 1: "negative"}
    folder, _ = saved("bert", "ForSequenceClassification", id2label=names, label2id={"positive": 0, "negative": 1})
    import_model(folder, tmp_path / "out", head_name="mood")
    checkpoint, task = open_checkpoint(tmp_path / "out/checkpoint.pt"), tmp_path / "task"
    assert not checkpoint.task["multi_label"]
    (task / "label").mkdir(parents=True)
    (task / "label/dict.txt").write_text("positive 1\nnegative 1\n")
    checkpoint.check_classes(task)
    (task / "label/dict.txt").write_text("negative 1\npositive 1\n")
    with pytest.raises(ValueError, match="other labels"):
        checkpoint.check_classes(task)


def test_a_head_of_several_labels(saved, tmp_path):
    kind = {"problem_type": "multi_label_classification", "num_labels": 3}
    folder, _ = saved("bert", "ForSequenceClassification", **kind)
    import_model(folder, tmp_path / "out", head_name="toxic")
    task = open_checkpoint(tmp_path / "out/checkpoint.pt").task
    assert task["multi_label"] and task["num_classes"] == 3 and not task["regression_target"]


def by_row(folder, out):
    """The row elsewhere of each of our symbols."""
    from tupe.checkpoints.foreign import tokenizer, vocabulary

    config = json.loads((folder / "config.json").read_text())
    source = tokenizer.of_transformers(folder, config, False).source
    return vocabulary.by_role(source, config["vocab_size"]).rows


def test_a_head_of_fairseq_and_its_labels(released, tmp_path):
    folder, original = released(heads=[("mnli", 3)])
    lines = import_model(folder, tmp_path / "left")
    assert any("left behind: the classification head mnli (--head mnli keeps it)" in line for line in lines)
    out = tmp_path / "kept"
    import_model(folder, out, head_name="mnli", labels=["entailment", "neutral", "contradiction"], compare=True)
    tokens = torch.tensor([[0, 9, 8, 7, 2]])
    with torch.no_grad():
        ours = opened(out).model(tokens, features_only=True, classification_head_name="mnli")[0]
        theirs = original(tokens, classification_head_name="mnli")[0]
    assert (ours - theirs[:, [2, 1, 0]]).abs().max() < 1e-6  # contradiction, neutral, entailment


def test_a_pooler_begins_a_head(saved, tmp_path):
    folder, original = saved("bert", "ForPreTraining")
    import_model(folder, tmp_path / "out", pooler=True)
    state = safe_load(tmp_path / "out/checkpoint.pt")["model"]
    assert torch.equal(state["pooler.dense.weight"], original.bert.pooler.dense.weight)
    model = opened(tmp_path / "out").model
    model.register_classification_head("new", num_classes=2)
    out_proj = model.classification_heads["new"].out_proj.weight.clone()
    model.load_state_dict(dict(state))
    assert torch.equal(model.classification_heads["new"].dense.weight, original.bert.pooler.dense.weight)
    assert torch.equal(model.classification_heads["new"].out_proj.weight, out_proj)


def test_pickled_weights_are_the_same(saved, tmp_path):
    folder, original = saved("bert")
    (folder / "model.safetensors").unlink()
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    state = {}
    for name, tensor in original.state_dict().items():
        for new, old in names.items():
            name = name.replace(new, old)
        state[name] = tensor
    torch.save(state, folder / "pytorch_model.bin")
    foreign, _ = transformers.read(folder)
    ours = foreign.weights["encoder.sentence_encoder.layernorm_embedding.weight"]
    assert torch.equal(ours, original.bert.embeddings.LayerNorm.weight)
    assert main(["import", str(folder), str(tmp_path / "out")]) == 0


def test_meters_of_2019_are_thrown_away(released, monkeypatch):
    folder, _ = released()
    module = types.ModuleType("fairseq.meters")

    class AverageMeter:
        def __init__(self):
            self.val, self.sum = 0.0, 1.0

    AverageMeter.__module__, AverageMeter.__qualname__ = "fairseq.meters", "AverageMeter"
    module.AverageMeter = AverageMeter
    state = safe_load(folder / "model.pt")
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "fairseq.meters", module)
        torch.save({**state, "extra_state": {"train_meters": {"loss": AverageMeter()}}}, folder / "model.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"fairseq\.meters\.AverageMeter"):
        safe_load(folder / "model.pt")
    assert fairseq.read(folder).symbols > 0


def test_meters_of_today_are_thrown_away_unread(released):
    from fairseq.logging import meters

    folder, _ = released()
    state, held = safe_load(folder / "model.pt"), {"loss": meters.AverageMeter(), "wall": meters.StopwatchMeter()}
    torch.save({**state, "extra_state": {"train_meters": held}}, folder / "model.pt")
    assert fairseq.read(folder).symbols > 0


def test_half_precision_and_the_older_container(released):
    folder, _ = released(lambda state: {name: tensor.half() for name, tensor in state.items()})
    state = safe_load(folder / "model.pt")
    torch.save(state, folder / "model.pt", _use_new_zipfile_serialization=False)
    foreign = fairseq.read(folder)
    assert all(tensor.dtype == torch.float32 for tensor in foreign.weights.values())
