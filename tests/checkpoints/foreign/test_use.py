"""What other commands make of an imported model: tasks, questions, a corpus, a fine-tuning, an export."""

import json

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.checkpoints.foreign.conftest import LINES, write_glue
from tests.commands import finetune, hydra_train
from tests.conftest import write
from tests.data.qa.conftest import squad
from tests.data.qa.conftest import write_json as write_questions
from tupe.cli.main import main
from tupe.data.corpus.manifest import Manifest
from tupe.experiments.settings import model_overrides
from tupe.models import TupeModel
from tupe.safe_load import safe_load

transformers = pytest.importorskip("transformers")
README = ["---", "language: en", "license: apache-2.0", "---", "# A model", "license: none of this"]


@pytest.fixture(scope="module", params=["roberta", "bert", "camembert"])
def imported(request, saved, tmp_path_factory):
    """A folder of Transformers, its model, and the import."""
    folder, model = saved(request.param)
    write(folder / "README.md", README)
    out = tmp_path_factory.mktemp("models") / request.param
    assert main(["import", str(folder), str(out), "--language", "en"]) == 0
    return folder, model, out


def rows(path):
    return [item.tolist() for item in MMapIndexedDataset(str(path))]


def test_tasks_of_glue(imported, tmp_path):
    out, tasks = imported[2], tmp_path / "glue"
    options = ["CoLA", "RTE", "--partial", "--workers", "1"]
    assert main(["prepare-glue", str(write_glue(tmp_path / "download")), str(out), str(tasks), *options]) == 0
    tokenizer = Manifest.load(out).tokenizer()
    assert rows(tasks / "CoLA/input0/test")[-1] == [*tokenizer("two  spaces and\u00a0another"), 2]
    found = rows(tasks / "RTE/input1/train")
    assert found == [[*tokenizer(LINES[(row + 1) % 4]), 2] for row in range(16)]
    assert (tasks / "CoLA/input0/dict.txt").read_bytes() == (out / "dict.txt").read_bytes()


def test_questions(imported, tmp_path):
    contexts = [(LINES[0], [("1", "Since when?", "1885")]), (LINES[2], [("2", "Who?", "Bob")])]
    contexts += [(LINES[3], [("3", "Quoi ?", "délicieux")]), (LINES[1], [("4", "Where?", "Warsaw")])]
    path = write_questions(tmp_path / "train.json", squad(*contexts))
    assert main(["prepare-qa", str(imported[2]), str(tmp_path / "qa"), f"train={path}", "--workers", "1"]) == 0
    report = json.loads((tmp_path / "qa/train/report.json").read_text())
    assert (report["read"], report["kept"]) == (4, 4)
    places = np.load(tmp_path / "qa/train/examples.npy")
    spans = [rows(tmp_path / "qa/train" / name) for name in ("begin", "end")]
    for (context, ((_, _, answer),)), (_, place, first, last) in zip(contexts, places):
        assert answer in context[spans[0][place][first] : spans[1][place][last]]


def test_a_corpus_in_its_pieces(imported, tmp_path):
    out, data = imported[2], tmp_path / "data"
    text = write(tmp_path / "text.txt", [line for line in LINES for _ in range(2)] + ["", *LINES])
    command = ["prepare-corpus", str(data), str(text or tmp_path / "text.txt"), "--vocabulary", str(out)]
    assert main([*command, "--valid-documents", "1", "--workers", "1"]) == 0
    manifest, tokenizer = Manifest.load(data), Manifest.load(out).tokenizer()
    assert manifest.model.name == Manifest.load(out).model.name
    assert manifest.content.settings.stages == Manifest.load(out).content.settings.stages
    assert (data / "dict.txt").read_bytes() == (out / "dict.txt").read_bytes()
    found = rows(data / "train") + rows(data / "valid")
    assert [*tokenizer(LINES[0]), 2] in found and [*tokenizer(LINES[3]), 2] in found
    hub = TupeModel.from_pretrained(str(out), "checkpoint.pt", str(data.resolve()))
    assert hub.encode(LINES[0]).tolist() == [0, *tokenizer(LINES[0]), 2]


def test_there_and_back(imported, tmp_path):
    """Exported again, it says what the original says of the same text."""
    import tupe.transformers  # noqa: F401

    folder, model, out = imported
    assert main(["export", str(out / "checkpoint.pt"), str(out), str(tmp_path / "exported")]) == 0
    ours = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "exported").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    plain, own = Manifest.load(out).tokenizer(), [*Manifest.load(out).tokenizer().symbols, "<mask>"]
    separators = [2] * (1 if ours.config.pair_separators == 1 else 2)
    for pair in ([LINES[0]], LINES[:2]):
        ids = tokenizer(*pair)["input_ids"]
        first, *others = map(plain, pair)
        assert ids == [0, *first, *(number for other in others for number in (*separators, *other)), 2]
    masked = tokenizer("Anna sees the <mask> .")["input_ids"]
    assert masked.count(own.index("<mask>")) == 1
    options = {"padding": True, "truncation": True, "return_tensors": "pt", "return_token_type_ids": True}
    batch = tokenizer(LINES[:2], LINES[2:4], **options)
    from tests.checkpoints.foreign.test_maps import by_row

    there = torch.tensor(by_row(folder, out))
    inputs = {"input_ids": there[batch["input_ids"]], "attention_mask": batch["attention_mask"]}
    if ours.config.segment != "none":
        inputs["token_type_ids"] = batch["token_type_ids"]
    with torch.no_grad():
        found = ours(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        wanted = model(**inputs).logits[..., there]
    words = batch["attention_mask"].bool()
    assert (found - wanted)[words].abs().max() < 1e-5 * wanted.abs().max()
    card = (tmp_path / "exported/README.md").read_text()
    assert "license: apache-2.0\n" in card and f"base_model: {folder.name}\n" in card
    assert f"of {folder.name}, a" in card
    assert ("(NFC)" in card) == (out / "sentencepiece.bpe.model").is_file()  # a limit of tokenizers built from one


def test_what_is_said_and_kept(imported, tmp_path, capsys):
    folder, _, out = imported
    assert main(["import", str(folder), str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "2 layers of width 16, 2 heads, 60 positions" in said
    assert ("(a table of 62 rows, of which 2 are never used)" in said) == (folder.name[:4] != "bert")
    assert "licence: apache-2.0" in said
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["imported"]["licence"] == "apache-2.0"
    assert {"config.json", "model.safetensors"} <= manifest["imported"]["files"].keys()
    assert safe_load(out / "checkpoint.pt")["cfg"]["model"]["dictionary_sha256"]
    assert main(["import", str(folder), str(out)]) == 1
    assert f"{out} exists" in capsys.readouterr().err


def test_one_is_fine_tuned_predicts_and_is_exported(saved, tmp_path):
    """A BERT, whose pairs have one separator, in every step."""
    out, glue = tmp_path / "bert", tmp_path / "glue"
    assert main(["import", str(saved("bert", "ForPreTraining")[0]), str(out), "--pooler"]) == 0
    options = ["RTE", "--partial", "--workers", "1"]
    assert main(["prepare-glue", str(write_glue(tmp_path / "download")), str(out), str(glue), *options]) == 0
    run = tmp_path / "run"
    keys = ("optimization.max_epoch=1", "dataset.batch_size=8", f"checkpoint.save_dir={run}")
    done = finetune("RTE", out / "checkpoint.pt", glue, *keys)
    assert done.returncode == 0, done.stderr[-2000:]
    state = safe_load(run / "checkpoint_best.pt")
    assert state["cfg"]["model"]["pair_separators"] == 1 and state["cfg"]["model"]["layer_norm_eps"] == 1e-12
    assert not any(name.startswith("pooler.") for name in state["model"])
    best = str(run / "checkpoint_best.pt")
    assert main(["predict", best, str(glue / "RTE"), str(tmp_path / "said"), "--partial"]) == 0
    assert len((tmp_path / "said/RTE.tsv").read_text().splitlines()) == 17
    command = ["export", best, str(glue / "RTE"), str(tmp_path / "exported"), "--corpus", str(out)]
    assert main(command) == 0
    hub = TupeModel.from_pretrained(
        str(run), "checkpoint_best.pt", str(glue / "RTE"), sentencepiece_model=str(out / "tokenizer.json")
    ).eval()
    import tupe.transformers  # noqa: F401

    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    batch = tokenizer(LINES[0], LINES[1], return_tensors="pt")
    assert hub.encode(LINES[0], LINES[1]).tolist() == batch["input_ids"][0].tolist()
    with torch.no_grad():
        wanted = hub.predict("sentence_classification_head", batch["input_ids"], return_logits=True)
        assert (model(**batch).logits - wanted).abs().max() < 1e-5


def test_pre_training_goes_on(saved, tmp_path):
    """With the fields of the model, as `tupe model-overrides` says them, from its weights."""
    out = tmp_path / "bert"
    assert main(["import", str(saved("bert")[0]), str(out)]) == 0
    text = tmp_path / "text.txt"
    write(text, [line for document in range(8) for line in (*LINES, f"{document} {document}.", "")])
    command = ["prepare-corpus", str(tmp_path / "data"), str(text), "--vocabulary", str(out)]
    assert main([*command, "--valid-documents", "2", "--workers", "1"]) == 0
    overrides = [text for text in model_overrides(out / "checkpoint.pt") if not text.startswith("task.")]
    hydra_train(
        tmp_path / "data", tmp_path / "run", *overrides, "+model.max_positions=60", "optimization.max_update=2",
        f"checkpoint.finetune_from_model={out / 'checkpoint.pt'}", "optimization.lr=[1e-8]",
        "lr_scheduler.warmup_updates=1",
    )  # fmt: skip
    before, after = (safe_load(path)["model"] for path in (out / "checkpoint.pt", tmp_path / "run/checkpoint_last.pt"))
    assert before.keys() == after.keys()
    assert all((before[name] - after[name]).abs().max() < 1e-6 for name in before)
