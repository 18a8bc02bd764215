"""Models of fairseq and Transformers say the same when they are ours."""

import json
import pickle
import sys
import types

import pytest
import safetensors.torch
import torch

from tests.checkpoints.foreign.conftest import HARD, LINES, POSITIONS, in_2019, opened, write_json
from tests.conftest import write
from tupe.analysis.checkpoint import open_encoder
from tupe.checkpoints.foreign import importing
from tupe.checkpoints.foreign.importing import import_model
from tupe.checkpoints.load import open_checkpoint
from tupe.data.tokenizers import write_dictionary
from tupe.hf.export import export
from tupe.hf.load import import_folder
from tupe.patches.checkpoints import read_dictionary
from tupe.patches.safe_load import safe_load
from tupe.util import UserError

transformers = pytest.importorskip("transformers")

#: DeBERTa's third version, with distances of which some are beyond the last bucket.
V3 = {"relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "share_att_key": True}
V3 |= {"norm_rel_ebd": "layer_norm", "position_buckets": 8, "max_relative_positions": 20}
UNTIED = {"tie_word_embeddings": False}
KINDS = ("roberta", "xlm-roberta", "camembert", "data2vec-text", "roberta-prelayernorm", "bert", "distilbert", "mpnet")
CASES = [(kind, {}) for kind in (*KINDS, "electra", "deberta-v2", "modernbert")]
CASES += [(kind, {"type_vocab_size": 1}) for kind in ("roberta", "bert")]
CASES += [("roberta", UNTIED), ("bert", UNTIED), ("bert", {"hidden_act": "gelu_new"})]
CASES += [("bert", {"vocab_size": 300, "attention_probs_dropout_prob": 0.25})]
CASES += [("mpnet", {"layer_norm_eps": 1e-3}), ("electra", {"embedding_size": 8, "layer_norm_eps": 1e-5})]
CASES += [("deberta-v2", V3), ("deberta-v2", {**V3, "position_buckets": -1}), ("deberta-v2", {**V3, "legacy": False})]
CASES += [("deberta-v2", {**V3, "position_biased_input": True, "type_vocab_size": 2})]
CASES += [("deberta-v2", {**V3, "max_relative_positions": -1, "type_vocab_size": 2, "layer_norm_eps": 1e-3})]
MODERN = {"local_attention": 8, "num_hidden_layers": 5, "global_attn_every_n_layers": 2, "local_rope_theta": 50.0}
CASES += [("modernbert", {**MODERN, "norm_eps": 1e-3, "mlp_dropout": 0.3})]
MNLI = dict(enumerate(["ENTAILMENT", "neutral", "contradiction"]))
CLASSES = {"id2label": MNLI, "label2id": {name: number for number, name in MNLI.items()}}
TOKENS = torch.tensor([[0, 9, 8, 7, 2]])


def rows_of(folder):
    """The row elsewhere of each of our symbols."""
    return torch.tensor(importing.transformers.read(folder, False, False, False).rows)


def close(ours, theirs):
    assert (ours - theirs).abs().max() <= 2e-6 * theirs.abs().max()


@pytest.mark.parametrize(("kind", "fields"), CASES)
@torch.no_grad()
def test_features_of_a_pair_of_texts(kind, fields, saved, tmp_path):
    """From the text: the tokenizer, the separators, the segments, the positions and the layers."""
    folder, original = saved(kind, **fields)
    lines = import_model(folder, tmp_path / "out")
    assert "value: features" in lines[-1] and "logits" in lines[-1]
    hub, rows = opened(tmp_path / "out"), rows_of(folder)
    batch = transformers.AutoTokenizer.from_pretrained(folder)(LINES[0][:60], LINES[1][:25], return_tensors="pt")
    tokens = hub.encode(LINES[0][:60], LINES[1][:25])
    assert rows[tokens].tolist() == batch["input_ids"][0].tolist()
    encoder, inputs = hub.model.encoder.sentence_encoder, {"input_ids": batch["input_ids"]}
    if encoder.input_segments is not None:
        inputs["token_type_ids"] = encoder.segments(tokens[None]).long()
        assert inputs["token_type_ids"].tolist() == batch["token_type_ids"].tolist()
    close(hub.extract_features(tokens), original.base_model(**inputs).last_hidden_state)
    close(hub.model(tokens[None])[0], original(**inputs).logits[..., rows])
    got = (hub.model.args.max_positions, hub.model.args.activation_dropout, hub.model.args.untie_weights_roberta)
    assert (hub.model.args.attention_dropout == 0.25) == ("attention_probs_dropout_prob" in fields)
    assert got == (POSITIONS, fields.get("mlp_dropout", 0), fields == UNTIED)


@pytest.mark.parametrize(("kind", "head"), [("electra", "PreTraining"), ("modernbert", "SequenceClassification")])
@torch.no_grad()
def test_an_encoder_alone(kind, head, saved, tmp_path):
    """The import has no language-model head, and what needs one says so."""
    folder, original = saved(kind, f"For{head}")
    lines = import_model(folder, tmp_path / "out")
    assert "no language-model head" in lines
    assert any("discriminator_predictions.dense" in line for line in lines) == (kind == "electra")
    assert not any(".lm_head." in name for name in safe_load(tmp_path / "out/checkpoint.pt")["model"])
    theirs = original.base_model(rows_of(folder)[TOKENS]).last_hidden_state
    hub = opened(tmp_path / "out")
    close(hub.extract_features(TOKENS), theirs)
    with pytest.raises(UserError, match="has no language-model head"):
        hub.fill_mask("the <mask>")
    export(tmp_path / "out/checkpoint.pt", tmp_path / "out", tmp_path / "back")
    back = transformers.AutoModel.from_pretrained(tmp_path / "back")
    close(back(TOKENS)[0], theirs)
    back.save_pretrained(tmp_path / "saved")
    import_folder(tmp_path / "saved", tmp_path / "again.pt")
    before, after = (safe_load(path)["model"] for path in (tmp_path / "out/checkpoint.pt", tmp_path / "again.pt"))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert open_encoder(tmp_path / "again.pt").lm_head is None


def test_the_mask_decoder_of_a_deberta_is_left_behind(saved, tmp_path):
    """Microsoft's files have `lm_predictions` and unused absolute positions; their `config.json` has no `legacy`."""
    folder, _ = saved("deberta-v2", **V3, legacy=False)
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, "legacy": True})
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state["deberta.embeddings.position_embeddings.weight"] = torch.zeros(POSITIONS, 16)
    safetensors.torch.save_file(state, folder / "model.safetensors", {"format": "pt"})
    lines = import_model(folder, tmp_path / "out")
    assert "no language-model head" in lines
    assert any(line.startswith("left behind: ") and "lm_predictions" in line for line in lines)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("deberta-v2", {**V3, "conv_kernel_size": 3}),
        ("deberta-v2", {**V3, "pos_att_type": "p2c"}),
        ("roberta", {"hidden_act": "relu"}),  # the language-model head has gelu
    ],
)
def test_what_computes_otherwise_is_refused(kind, fields, saved, tmp_path):
    folder, _ = saved(kind, **fields)
    with pytest.raises(UserError, match=r"(features|logits) of the import differ"):
        import_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", ["adapter", "missing"])
def test_weights_that_are_not_the_model_s(change, saved, tmp_path):
    """Transformers leaves an adapter aside and draws what is missing."""
    folder, _ = saved("roberta")
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    prefix = "roberta.encoder.layer.0.attention.self.query."
    if change == "adapter":
        state[f"{prefix}lora_A.weight"] = torch.ones(2, 16)
    else:
        del state[f"{prefix}weight"]
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises((UserError, RuntimeError), match=r"layers?\.0"):
        import_model(folder, tmp_path / "out")


@pytest.mark.parametrize("change", [dict, in_2019])
@pytest.mark.parametrize(
    "options", [{}, {"untie_weights_roberta": True}, {"activation_fn": "relu"}, {"encoder_normalize_before": True}]
)
@torch.no_grad()
def test_fairseq(change, options, released, tmp_path):
    folder, original = released(change, attention_dropout=0.2, **options)
    import_model(folder, tmp_path / "out")
    hub = opened(tmp_path / "out")
    tokens = torch.randint(4, len(hub.task.source_dictionary), (2, 30))
    tokens[:, 0], tokens[:, -1], tokens[0, 20:] = 0, 2, 1
    close(hub.model(tokens)[0][tokens != 1], original(tokens)[0][tokens != 1])
    assert (hub.model.args.max_positions, hub.model.args.attention_dropout) == (POSITIONS, 0.2)


@pytest.mark.parametrize("tied", [True, False])
def test_fairseq_of_2019(tied, released, tmp_path):
    """`encoder_normalize_before` gave the embeddings their norm; a tied decoder may lack; meters are thrown away."""
    folder, original = released(in_2019)
    state = safe_load(folder / "model.pt")
    state["args"].encoder_normalize_before = True
    state["model"] = {name: x.half() for name, x in state["model"].items() if tied or not name.endswith("head.weight")}
    original.half().float()
    module, meter = types.ModuleType("fairseq.meters"), type("AverageMeter", (), {"__module__": "fairseq.meters"})
    module.AverageMeter = meter
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fairseq.meters", module)
        held = {**state, "extra_state": {"train_meters": {"loss": meter()}}}
        torch.save(held, folder / "model.pt", _use_new_zipfile_serialization=tied)
    with pytest.raises(pickle.UnpicklingError, match=r"fairseq\.meters\.AverageMeter"):
        safe_load(folder / "model.pt")
    import_model(folder, tmp_path / "out")
    with torch.no_grad():
        close(opened(tmp_path / "out").model(TOKENS)[0], original(TOKENS)[0])


def task_of(out, classes):
    """A prepared task of an import."""
    write(out.parent / "task/input0/dict.txt", (out / "dict.txt").read_text().splitlines())
    write(out.parent / "task/label/dict.txt", [f"{name} 1" for name in classes])
    return out.parent / "task"


@pytest.mark.parametrize("kind", ["roberta", "bert", "distilbert", "electra", "mpnet", "deberta-v2"])
@torch.no_grad()
def test_a_classification_head(kind, saved, tmp_path):
    folder, original = saved(kind, "ForSequenceClassification", **CLASSES, **(V3 if kind == "deberta-v2" else {}))
    lines = import_model(folder, tmp_path / "out", head_name="mnli")
    assert "head: mnli, contradiction, neutral, entailment in the order of MNLI" in lines
    task = task_of(tmp_path / "out", ["contradiction", "neutral", "entailment"])
    ours = opened(tmp_path / "out", task).predict("mnli", TOKENS, return_logits=True)
    close(ours, original(rows_of(folder)[TOKENS]).logits[:, [2, 1, 0]])
    checkpoint = open_checkpoint(tmp_path / "out/checkpoint.pt")
    checkpoint.model(task)
    with pytest.raises(UserError, match="another order or set of labels"):
        checkpoint.model(task_of(tmp_path / "out", ["neutral", "contradiction", "entailment"]))


@torch.no_grad()
def test_a_head_of_fairseq_and_its_labels(released, tmp_path):
    folder, original = released(heads=[("mnli", 3)])
    assert "left behind: classification_heads.mnli" in import_model(folder, tmp_path / "left")
    import_model(folder, tmp_path / "out", head_name="mnli", labels=["entailment", "neutral", "contradiction"])
    task = task_of(tmp_path / "out", ["contradiction", "neutral", "entailment"])
    ours = opened(tmp_path / "out", task).predict("mnli", TOKENS, return_logits=True)
    close(ours, original(TOKENS, classification_head_name="mnli")[0][:, [2, 1, 0]])


def test_heads_that_no_task_has(saved, tmp_path):
    folder, _ = saved("bert", "ForSequenceClassification", problem_type="multi_label_classification", num_labels=3)
    with pytest.raises(UserError, match="multi-label"):
        import_model(folder, tmp_path / "out", head_name="toxic")
    with pytest.raises(KeyError, match="out_proj"):  # which Transformers draws
        import_model(saved("bert")[0], tmp_path / "out", head_name="none")


def test_a_pooler_begins_a_head(saved, tmp_path):
    folder, original = saved("bert", "ForPreTraining")
    import_model(folder, tmp_path / "out", pooler=True)
    state = safe_load(tmp_path / "out/checkpoint.pt")["model"]
    model = opened(tmp_path / "out").model
    model.register_classification_head("new", num_classes=2)
    model.load_state_dict(dict(state))
    assert torch.equal(model.classification_heads["new"].dense.weight, original.bert.pooler.dense.weight)


def test_camembert_s_dictionary_repeats_symbols(pieces, released, tmp_path):
    """fairseq's tasks put row 0 before a text and row 2 behind it, whatever `<s>` and `</s>` are called there."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    names = [model.id_to_piece(number) for number in range(len(model))]
    lines = [f"{name} 999{' #fairseq:overwrite' * (name in ('<unk>', '<s>', '</s>'))}" for name in names]
    folder, original = released(lines=lines)
    (folder / "sentencepiece.bpe.model").write_bytes(pieces.read_bytes())
    import_model(folder, tmp_path / "out")
    hub = opened(tmp_path / "out")
    tokens = hub.encode("Le camembert")
    assert tokens.tolist() == [0, *(number + 4 if number else 3 for number in model.encode("Le camembert")), 2]
    with torch.no_grad():
        close(hub.extract_features(tokens), original(tokens[None], features_only=True)[0])


@pytest.mark.parametrize("piece", ["a\u2028b", "\u00a0", "a\u0085", "#fairseq:overwrite", "a b", "-3", *HARD[:1]])
def test_odd_pieces_come_back(piece, tmp_path):
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "a", piece, "b", "<mask>"]
    write_dictionary(tmp_path / "dict.txt", symbols)
    assert read_dictionary(tmp_path / "dict.txt").symbols == symbols
