"""From a checkpoint to a folder of Transformers and back, by the commands."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from tests.checkpoints.conftest import HEAD
from tests.commands import ROOT, train
from tests.conftest import write
from tests.samples import write_manifest
from tupe.checkpoints.to_transformers import export
from tupe.checkpoints.transformers_format import AUTO_MAP
from tupe.cli.main import main
from tupe.errors import UserError
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)  # an export needs none
        assert main(["export", str(pretrained[0]), str(corpus), str(pretrained[2])]) == 0
    return pretrained[2]


def test_what_is_in_the_folder(exported):
    config = json.loads((exported / "config.json").read_text())
    assert config["auto_map"] == AUTO_MAP
    assert (config["hidden_size"], config["absolute"], config["vocab_size"]) == (16, "untied", 91)
    weights = safetensors.load_file(exported / "model.safetensors")
    assert "tupe.embed_tokens.weight" in weights
    assert "lm_head.decoder.weight" not in weights
    for name in ("configuration_tupe.py", "modeling_tupe.py"):
        text = (exported / name).read_text()
        assert text == (ROOT / "tupe/transformers" / name).read_text()
        assert not re.search(r"^\s*(import|from) (tupe|fairseq)", text, re.MULTILINE)
    card = (exported / "README.md").read_text()
    assert "TUPE-R" in card
    assert "content/sqrt(2d) + reset" in card
    assert (exported / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert "Ke" in card


@pytest.mark.parametrize(
    ("name", "fields", "end"),
    [
        ("tupe_a_tiny", {}, "sharing `layer`."),
        ("rope_tiny", {}, "sharing `layer`, rotary_dims `-1`."),
    ],
)
def test_the_card_names_the_fields_of_rotations_and_draws(name, fields, end, make_checkpoint, corpus, tmp_path):
    make_checkpoint(tmp_path / "checkpoint.pt", name, **fields)
    command = ["export", str(tmp_path / "checkpoint.pt"), str(corpus), str(tmp_path / "out"), "--no-tokenizer"]
    assert main(command) == 0
    lines = (tmp_path / "out/README.md").read_text().splitlines()
    assert next(line for line in lines if line.startswith("Position terms: ")).endswith(end)


def test_a_process_without_fairseq_uses_it(exported, pretrained, tmp_path):
    environment = {**os.environ, "PYTHONPATH": "", "HF_HOME": str(tmp_path)}
    command = [sys.executable, ROOT / "tests/transformers/use.py", exported, tmp_path]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads((tmp_path / "seen.json").read_text())
    found = torch.load(tmp_path / "logits.pt")
    with torch.no_grad():
        wanted = pretrained[1](found["ids"])[0]
    assert (found["logits"] - wanted).abs().max() < 1e-5 * max(1, wanted.abs().max())
    assert seen["same bits"] and seen["trained"] and seen["features"] < 1e-6
    assert seen["evaluation"] > 0
    assert seen["modules"] == []
    assert seen["classes again"] == "TupeForSequenceClassification"
    assert [x["label"] in ("LABEL_0", "LABEL_1") for x in seen["classification"]] == [True, True]
    length = found["ids"].shape[1]
    assert seen["AutoModelForQuestionAnswering"] == [[2, length]] * 2
    assert seen["AutoModelForTokenClassification"] == [[2, length, 2]]
    assert seen["sentences"][0] == [2, 16]
    assert seen["sentences"][1] < 1e-6


METRIC = """
import datasets
import evaluate


class Accuracy(evaluate.Metric):  # what the hub would send
    def _info(self):
        integer = datasets.Value("int32")
        features = datasets.Features({"predictions": integer, "references": integer})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        return {"accuracy": float(sum(map(int.__eq__, predictions, references)) / len(references))}
"""


@pytest.mark.skipif(
    not {"TUPE_RUN_GLUE", "TUPE_GLUE_DIR"} <= os.environ.keys(),
    reason="TUPE_RUN_GLUE, Transformers' examples/pytorch/text-classification/run_glue.py, and TUPE_GLUE_DIR, "
    "the folder of a GLUE download, are not both set",
)
def test_the_library_s_own_script_fine_tunes_it(exported, tmp_path):
    pytest.importorskip("datasets")
    pytest.importorskip("evaluate")
    for split, rows in (("train", 64), ("dev", 32)):
        lines = Path(os.environ["TUPE_GLUE_DIR"], "CoLA", f"{split}.tsv").read_text("utf-8").splitlines()[:rows]
        with open(tmp_path / f"{split}.csv", "w", newline="", encoding="utf-8") as file:
            fields = (line.split("\t") for line in lines)
            csv.writer(file).writerows([("sentence", "label"), *((x[3], x[1]) for x in fields)])
    write(tmp_path / "accuracy/accuracy.py", METRIC.splitlines())
    options = f"""--model_name_or_path {exported} --trust_remote_code True --train_file train.csv
        --validation_file dev.csv --do_train --do_eval --max_seq_length 24 --per_device_train_batch_size 16
        --max_steps 4 --learning_rate 1e-3 --use_cpu --report_to none --output_dir out"""
    script = "import runpy, sys; sys.modules['torchaudio'] = None; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-c", script, os.environ["TUPE_RUN_GLUE"], *options.split()]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads((tmp_path / "out/all_results.json").read_text())
    assert (seen["train_samples"], seen["eval_samples"]) == (64, 32)
    assert 0 < seen["eval_loss"] < 5
    assert (tmp_path / "out/model.safetensors").exists()


def test_masks_are_filled_as_by_fairseq(exported, pretrained, corpus):
    from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

    import tupe.transformers  # noqa: F401

    hub = TupeModel.from_pretrained(str(pretrained[0].parent), pretrained[0].name, str(corpus.resolve()))
    hub.eval()
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(exported), AutoTokenizer.from_pretrained(exported)
    text = "Anna sees the <mask> and Bob likes a red car ."
    wanted = hub.fill_mask(text, topk=5)
    found = pipeline("fill-mask", model=model, tokenizer=tokenizer)(text, top_k=5)
    assert [x["score"] for x in found] == pytest.approx([score for _, score, _ in wanted], abs=1e-6)
    assert [x["token_str"].strip() for x in found] == [word.strip() for _, _, word in wanted]
    for sentences in (["Anna sees the house ."], ["Bob likes a red car .", "Dora finds the old dog ."]):
        assert tokenizer(*sentences)["input_ids"] == hub.encode(*sentences).tolist()


def test_back_is_the_same_state_and_trains_on(exported, pretrained, corpus, tmp_path):
    back = tmp_path / "back.pt"
    assert main(["import", str(exported), str(back)]) == 0
    before, after = (torch.load(path, weights_only=True) for path in (pretrained[0], back))
    assert before["model"].keys() == after["model"].keys()
    assert all(torch.equal(before["model"][name], after["model"][name]) for name in before["model"])
    assert before["cfg"]["model"] == after["cfg"]["model"]
    shape = ("--encoder-layers", 2, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 24)
    options = ("--arch", "tupe_tiny", *shape, "--encoder-attention-heads", 2, "--max-positions", 24)
    done = train(
        corpus, tmp_path / "run", *options, "--restore-file", back, "--max-update", 5, "--tokens-per-sample", 24
    )
    assert f"Loaded checkpoint {back}" in done.stdout


@pytest.mark.parametrize(("task", "labels"), [("CoLA", ["1", "0"]), ("MNLI", ["neutral", "yes", "no"]), ("STS-B", [])])
def test_fine_tuned_there_and_back(task, labels, make_checkpoint, corpus, tmp_path, capsys):
    from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

    import tupe.transformers  # noqa: F401

    data, num_classes = tmp_path / task, len(labels) or 1
    for side, symbols in (
        ("input0", (corpus / "dict.txt").read_text()),
        ("label", "".join(f"{x} 1\n" for x in labels)),
    ):
        write(data / side / "dict.txt", symbols.splitlines())
    fields = {"segment": "per_head", "encoder_normalize_before": True, "sharing": "none"}
    model = make_checkpoint(
        tmp_path / "best.pt", "tupe_a_tiny", num_classes, num_classes == 1, data=f"gone/{task}", **fields
    )
    result = {"task": task, "metric": "mcc", "score": 61.5, "seed": 3, "lr": 2e-5, "epoch": 2}
    (tmp_path / "result.json").write_text(json.dumps(result))
    out = tmp_path / "exported"
    arguments = ["export", str(tmp_path / "best.pt"), str(data), str(out), "--corpus", str(corpus)]
    write(tmp_path / "other.json", [json.dumps({**result, "task": "WNLI"})])
    assert main([*arguments, "--result", str(tmp_path / "other.json")]) == 1
    assert f"other.json is of WNLI, but {tmp_path}/best.pt of {task}: give another --result" in capsys.readouterr().err
    assert main([*arguments, "--license", "mit"]) == 0
    classifier = AutoModelForSequenceClassification.from_pretrained(out).eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    batch = tokenizer([["Anna sees the house .", "Bob likes a red car ."], ["Carl .", "Dora ."]], padding=True)
    ids = torch.tensor(batch["input_ids"])
    with torch.no_grad():
        wanted = model(ids, features_only=True, classification_head_name=HEAD)[0]
        found = classifier(ids, attention_mask=torch.tensor(batch["attention_mask"])).logits
    assert (found - wanted).abs().max() < 1e-5 * max(1, wanted.abs().max())
    assert list(classifier.config.id2label.values()) == (labels or ["LABEL_0"])
    assert classifier.config.problem_type == ("regression" if num_classes == 1 else "single_label_classification")
    card = (out / "README.md").read_text()
    assert "license: mit\n" in card
    assert "      value: 61.5" in card
    assert f"GLUE {task}" in card
    AutoModelForMaskedLM.from_pretrained(out)  # its head is there too

    assert main(["import", str(out), str(tmp_path / "back.pt")]) == 0
    before, after = (torch.load(tmp_path / name, weights_only=True) for name in ("best.pt", "back.pt"))
    assert all(torch.equal(before["model"][name], after["model"][name]) for name in before["model"])
    assert {**before["cfg"]["task"], "multi_label": False} == {**after["cfg"]["task"], "data": f"gone/{task}"}
    classifier.save_pretrained(tmp_path / "again")  # without the language model's head
    capsys.readouterr()
    assert main(["import", str(tmp_path / "again"), str(tmp_path / "new.pt")]) == 0
    assert "has no language-model head" in capsys.readouterr().out
    again = TupeModel.from_pretrained(str(tmp_path), "new.pt", str(data.resolve()), bpe=None)
    with torch.no_grad():
        assert torch.equal(again.model.eval()(ids, features_only=True, classification_head_name=HEAD)[0], wanted)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"task": {"_name": "sentence_prediction", "num_classes": 1, "data": "gone"}},
            "cannot be loaded .*input0/dict.txt",
        ),
        ({"optimizer_history": [3]}, r"optimizer_history is not .*\[0\] is 3"),
        ({"optimizer_history": [{"num_updates": "many"}]}, "the number of its updates is not .*'many'"),
        ({"optimizer_history": {"x": 1}}, "optimizer_history is not "),
        ({"result": ["task"]}, "result.json is not "),
        (
            {"result": {"task": "CoLA", "metric": "mcc", "score": 1.0, "seed": 3, "lr": 2e-5}},
            "best.pt is not fine-tuned, and .*: leave out --result",
        ),
    ],
)
def test_what_is_not_of_a_run_is_refused(changed, said, make_checkpoint, corpus, tmp_path, capsys):
    make_checkpoint(tmp_path / "best.pt")
    state = torch.load(tmp_path / "best.pt", weights_only=True)
    for name, value in changed.items():
        (state["cfg"] if name == "task" else state)[name] = value
    torch.save(state, tmp_path / "best.pt")
    (tmp_path / "result.json").write_text(json.dumps(changed.get("result", {})))
    arguments = ["--no-tokenizer", "--result", str(tmp_path / "result.json")]
    assert main(["export", str(tmp_path / "best.pt"), str(corpus), str(tmp_path / "out"), *arguments]) == 1
    assert re.search(rf"^error: .*{said}", capsys.readouterr().err, re.MULTILINE)
    assert not (tmp_path / "out").exists()


def test_answers_there_and_back(make_checkpoint, corpus, tmp_path, capsys):
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = make_checkpoint(tmp_path / "best.pt", spans=True, data="gone/SQuAD")
    result = {"task": "SQuAD", "metric": "f1", "score": 81.5, "seed": 3, "lr": 3e-5, "epoch": 2}
    (tmp_path / "result.json").write_text(json.dumps(result))
    assert main(["export", str(tmp_path / "best.pt"), str(corpus), str(tmp_path / "exported")]) == 0
    assert "load it with: AutoModelForQuestionAnswering.from_pretrained(" in capsys.readouterr().out
    card = (tmp_path / "exported/README.md").read_text()
    assert "name: SQuAD, development set\n      type: squad\n" in card
    assert "Fine-tuned on SQuAD." in card
    there = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "exported").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "exported")
    batch = tokenizer([["Who sees ?", "Anna sees the house ."], ["Who ?", "Dora ."]], padding=True, return_tensors="pt")
    with torch.no_grad():
        found, wanted = there(**batch), model(batch["input_ids"], spans=True)[0]
    for ours, theirs in zip(wanted, (found.start_logits, found.end_logits)):
        assert (ours - theirs)[batch["attention_mask"].bool()].abs().max() < 1e-5 * max(1, ours.abs().max())
    assert main(["import", str(tmp_path / "exported"), str(tmp_path / "back.pt")]) == 0
    before, after = (torch.load(tmp_path / name, weights_only=True) for name in ("best.pt", "back.pt"))
    assert before["model"].keys() == after["model"].keys()
    assert all(torch.equal(before["model"][name], after["model"][name]) for name in before["model"])
    assert {**before["cfg"]["task"], "data": "", "seed": 1}.items() <= after["cfg"]["task"].items()  # it still answers
    assert main(["export", str(tmp_path / "back.pt"), str(corpus), str(tmp_path / "again")]) == 0
    configs = [(tmp_path / name / "config.json").read_text() for name in ("exported", "again")]
    assert configs[0] == configs[1]


def test_twice_is_once_and_a_folder_of_others_stays(exported, pretrained, corpus, make_checkpoint, tmp_path, capsys):
    assert main(["export", str(pretrained[0]), str(corpus), str(exported)]) == 0
    export(str(pretrained[0]), str(corpus), str(exported))
    with pytest.raises(UserError, match=r"^data is None, but must be a path$"):
        export(pretrained[0], None, exported)
    make_checkpoint(tmp_path / "other.pt", dropout=0.2)
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "config.json").write_text("mine")
    for out in (exported, foreign, foreign / "config.json"):
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        capsys.readouterr()
        assert main(["export", str(tmp_path / "other.pt"), str(corpus), str(out)]) == 1
        assert capsys.readouterr().err.count("\n") == 1
        assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_nothing_stays_of_an_earlier_export(pretrained, corpus, cleaned_corpus, tmp_path):
    """Whatever its data and options were."""
    exports = [[str(cleaned_corpus), "--license", "mit"], [str(corpus), "--no-tokenizer"], [str(corpus)]]
    for number, (data, *options) in enumerate(exports):
        alone = tmp_path / str(number) / "out"
        for out in (tmp_path / "out", alone):
            assert main(["export", str(pretrained[0]), data, str(out), *options]) == 0
        assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
            p.name: p.read_bytes() for p in alone.iterdir()
        }


def altered(path, target, change):
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, target)
    return target


#: What is wrong -> what is changed in (checkpoint's state), in a copy of the data's folder, and what the sentence says.
WRONG = {
    "encoder-decoder": (lambda s: s["cfg"]["model"].update(_name="transformer"), None, "fairseq's model transformer"),
    "settings that run": (
        lambda s: s.update(args=Namespace(task="translation", arch="fconv", encoder_layers="print()")),
        None,
        r"old form \(args\)",
    ),
    "a task that runs": (
        lambda s: s["cfg"]["task"].update(task="multilingual_translation", left_pad_source="print()"),
        None,
        r"old form \(args\)",
    ),
    "no model of ours": (
        lambda s: s.pop("cfg"),
        None,
        "does not say what model it is of: give a checkpoint of training",
    ),
    "unknown field": (lambda s: s["cfg"]["model"].update(rotary=True), None, "unknown field 'rotary'"),
    "activation": (lambda s: s["cfg"]["model"].update(activation_fn="swish"), None, "activation_fn is 'swish'"),
    "a parameter": (lambda s: s["model"].pop("encoder.lm_head.bias"), None, "encoder.lm_head.bias"),
    "no dictionary": (None, lambda d: (d / "dict.txt").unlink(), r"there is no .*dict\.txt"),
    "another dictionary": (
        None,
        lambda d: (d / "dict.txt").write_text("".join(sorted((d / "dict.txt").read_text().splitlines(True)))),
        "trained with another dictionary",
    ),
    "a shorter one": (None, lambda d: (d / "dict.txt").write_text("a 1\n"), "trained with another dictionary"),
    "no SentencePiece": (None, lambda d: (d / "sentencepiece.bpe.model").unlink(), "--no-tokenizer"),
    "no model file": (None, lambda d: (d / "sentencepiece.bpe.model").write_text("?"), "is no SentencePiece model"),
    "a foreign manifest": (None, lambda d: (d / "manifest.json").write_text("{}"), r"manifest\.json"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_one_sentence(what, pretrained, corpus, tmp_path, capsys):
    change_state, change_data, wanted = WRONG[what]
    checkpoint, data = pretrained[0], tmp_path / "data"
    data.mkdir()
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(corpus / name, data)
    if change_state:
        checkpoint = altered(checkpoint, tmp_path / "changed.pt", change_state)
    else:
        change_data(data)
    if "old form" in wanted:
        with pytest.raises(UserError, match=wanted):
            TupeModel.from_pretrained(str(tmp_path), "changed.pt", str(data))
    assert main(["export", str(checkpoint), str(data), str(tmp_path / "out")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert re.search(wanted, err), err
    assert not (tmp_path / "out").exists()


def test_another_vocabulary_is_one_sentence(pretrained, corpus, tmp_path, capsys):
    import sentencepiece

    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(corpus / "dict.txt", data)
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus / "raw/text"), model_prefix=str(data / "sentencepiece.bpe"), vocab_size=70, model_type="bpe",
        user_defined_symbols=["<mask>"], minloglevel=2,
    )  # fmt: skip
    assert main(["export", str(pretrained[0]), str(data), str(tmp_path / "out")]) == 1
    assert re.search(r"the dictionary has \d+ pieces and .*model \d+, and they differ", capsys.readouterr().err)
    assert main(["export", str(pretrained[0]), str(data), str(tmp_path / "out"), "--no-tokenizer"]) == 0
    assert not (tmp_path / "out" / "tokenizer.json").exists()
    assert "no tokenizer" in capsys.readouterr().out


def test_a_cleaned_corpus_is_said(pretrained, cleaned_corpus, tmp_path, capsys):
    assert main(["export", str(pretrained[0]), str(cleaned_corpus), str(tmp_path / "out")]) == 0
    assert "the corpus was cleaned before SentencePiece (tokenise)" in capsys.readouterr().out
    card = (tmp_path / "out" / "README.md").read_text()
    assert "TextProcessing(('tokenise', 'lower-case'), 'en').around" in card
    assert "/home/me" not in card


def test_the_tokenizer_repairs_characters_where_the_corpus_did(pretrained, corpus, tmp_path, capsys):
    from transformers import AutoTokenizer

    import tupe.transformers  # noqa: F401

    data, ids = tmp_path / "data", {}
    data.mkdir()
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        shutil.copy(corpus / name, data)
    for stages in ((), ("repair-characters",)):
        write_manifest(data, stages)
        assert main(["export", str(pretrained[0]), str(data), str(tmp_path / "out")]) == 0
        assert "note: " not in capsys.readouterr().out
        ids[stages] = AutoTokenizer.from_pretrained(tmp_path / "out")("An\u00adna \u202asees")["input_ids"]
    assert ids[("repair-characters",)] == AutoTokenizer.from_pretrained(tmp_path / "out")("Anna sees")["input_ids"]
    assert 3 in ids[()] and 3 not in ids[("repair-characters",)]


def test_a_prepared_task_with_its_manifest(make_checkpoint, corpus, tmp_path, capsys):
    make_checkpoint(tmp_path / "best.pt", num_classes=2)
    data = tmp_path / "CoLA"
    write(data / "input0/dict.txt", (corpus / "dict.txt").read_text().splitlines())
    write(data / "label/dict.txt", ["1 1", "0 1"])
    (data / "manifest.json").write_text('{"made_of": {}}')
    arguments = ["export", str(tmp_path / "best.pt"), str(data), str(tmp_path / "out")]
    assert main([*arguments, "--no-tokenizer"]) == 0, capsys.readouterr().err


def config(change):
    return lambda folder: (folder / "config.json").write_text(
        json.dumps({**json.loads((folder / "config.json").read_text()), **change})
    )


def weights(change):
    def rewrite(folder):
        state = safetensors.load_file(folder / "model.safetensors")
        change(state)
        safetensors.save_file(state, folder / "model.safetensors")

    return rewrite


#: What is wrong with the folder -> how it came to be, and what `tupe import` says.
WRONG_FOLDERS = {
    "no config": (lambda f: (f / "config.json").unlink(), r"there is neither model\.pt.* nor config\.json"),
    "no JSON": (lambda f: (f / "config.json").write_text("{"), "no JSON"),
    "another model": (config({"model_type": "bert"}), "lacks 'embeddings.position_embeddings.weight'"),
    "a list": (lambda f: (f / "config.json").write_text("[]"), r"config\.json is not what .* writes \(it is \[\]"),
    "wrong type": (config({"hidden_size": "16"}), "encoder_embed_dim is '16'"),
    "no choice": (config({"absolute": "sinusoidal"}), "has absolute=sinusoidal, a term that is not registered"),
    "hostile": (config({"hidden_act": "gelu\n+hydra.x=1"}), "activation"),
    "a head": (
        lambda f: (
            config({"fairseq": {"model": "tupe_tiny", "head": "a.b"}})(f),
            weights(lambda s: s.update({"classifier.out_proj.weight": torch.ones(2, 16)}))(f),
        ),
        "names the head 'a.b'",
    ),
    "an index": (lambda f: (f / "model.safetensors.index.json").write_text("{}"), "weight_map"),
    "a list of parts": (lambda f: (f / "model.safetensors.index.json").write_text("[]"), "index.json is not what"),
    "unknown name": (config({"fairseq": {"model": "roberta"}}), "fairseq's model roberta"),
    "more symbols": (config({"fairseq": {"model": "tupe_tiny", "symbols": 90}}), "symbols that were added since"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), r"there is no .*model\.safetensors"),
    "cut weights": (lambda f: (f / "model.safetensors").write_bytes(b"\1\2\3"), "no safetensors .*`git lfs pull`"),
    "a parameter": (weights(lambda s: s.pop("tupe.layers.0.fc1.bias")), "lack encoder.*fc1.bias"),
    "one too many": (weights(lambda s: s.update(more=torch.ones(1))), "have more"),
    "no words": (weights(lambda s: s.pop("tupe.embed_tokens.weight")), "has no .*embed_tokens"),
    "no numbers": (weights(lambda s: s["lm_head.dense.bias"].fill_(torch.nan)), r"tensors holds weights that are NaN"),
    "another shape": (config({"num_hidden_layers": 1}), "does not hold the weights of the 1 layers"),
    "another width": (config({"intermediate_size": 8}), "do not fit its config"),
}


@pytest.mark.parametrize("what", WRONG_FOLDERS)
def test_wrong_folder_is_one_sentence(what, exported, tmp_path, capsys):
    change, wanted = WRONG_FOLDERS[what]
    folder = Path(shutil.copytree(exported, tmp_path / "folder"))
    change(folder)
    assert main(["import", str(folder), str(tmp_path / "back.pt")]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1, err
    assert re.search(wanted, err), err
    assert not (tmp_path / "back.pt").exists()


def test_changed_bytes_of_the_weights_are_said(exported, tmp_path, capsys):
    folder = Path(shutil.copytree(exported, tmp_path / "folder"))
    damaged = bytearray((folder / "model.safetensors").read_bytes())
    damaged[-100] ^= 1
    (folder / "model.safetensors").write_bytes(damaged)
    for command in (["import", str(folder), str(tmp_path / "back.pt")], ["export-onnx", str(folder)]):
        assert main(command) == 1
        assert re.search(r"model\.safetensors is damaged: .*its checksum differs", capsys.readouterr().err)


def test_weights_that_transformers_saved_again_are_no_damage(exported, tmp_path):
    """In the folder of the export, where they take the place of those whose checksum was written."""
    from tupe.transformers import TupeForMaskedLM

    folder = Path(shutil.copytree(exported, tmp_path / "folder"))
    model = TupeForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.lm_head.decoder.bias += 1
    model.save_pretrained(folder)
    assert main(["import", str(folder), str(tmp_path / "back.pt")]) == 0
    back = torch.load(tmp_path / "back.pt", weights_only=True)["model"]["encoder.lm_head.bias"]
    assert torch.equal(back, model.lm_head.decoder.bias)


def test_a_folder_without_our_notes_is_imported(exported, tmp_path):
    folder = Path(shutil.copytree(exported, tmp_path / "folder"))
    config({"fairseq": "none"})(folder)
    assert main(["import", str(folder), str(tmp_path / "back.pt")]) == 0
    assert torch.load(tmp_path / "back.pt", weights_only=True)["cfg"]["model"]["_name"] == "tupe_base"


def test_an_old_transformers_is_one_sentence(monkeypatch):
    import transformers

    for name in [name for name in sys.modules if name.startswith("tupe.transformers")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(transformers, "__version__", "5.13.0")
    with pytest.raises(ImportError, match=r"needs transformers >= 5.14.*5.13.0 is installed: pip install"):
        import tupe.transformers  # noqa: F401
