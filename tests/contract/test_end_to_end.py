"""Whole ways by the commands, in small: from a text to predictions, to Transformers and back, and a study."""

import json
import math
import re

import pytest
import torch

from tests.commands import train_log
from tests.contract import commands as cli
from tests.contract.commands import ElectraModel, TupeModel, opened
from tests.contract.conftest import CLASSES, LANGUAGES, LINES, ROWS, THINGS


def features(checkpoint, data, tokens, kind=TupeModel):
    with torch.no_grad():
        return opened(checkpoint, data, kind).extract_features(tokens)


def test_pretraining_learns(pretrained):
    log = train_log(pretrained[1])
    losses = [float(record["loss"]) for record in log["train_inner"]]
    assert len(losses) == 40 and sum(losses[-5:]) < sum(losses[:5]) - 1
    assert {record["bsz"] for record in log["train_inner"][:20]} == {"8"}  # of 4 sequences at a time
    assert math.isfinite(float(log["valid"][-1]["valid_loss"]))


def test_the_script_keeps_the_batch_on_two_processes(data, tmp_path):
    """Updates of 2 x 4 sequences are those of 1 x 4 x 2, but for dropout."""
    keys = ("optimization.max_update=6", "model.dropout=0", "model.attention_dropout=0")
    of_both = []
    for processes in ("1", "2"):
        said = cli.pretrain(data, tmp_path / processes, *keys, PROCESSES=processes).stdout
        of_both.append([(float(r["loss"]), float(r["gnorm"]), r["bsz"]) for r in train_log(said)["train_inner"]])
    assert len(of_both[0]) == len(of_both[1]) == 6
    for one, two in zip(*of_both):
        assert one[:2] == pytest.approx(two[:2], abs=2e-3) and one[2] == two[2] == "8"


def test_from_finetuning_to_predictions(finetuned, checkpoint, glue, tmp_path):
    folder, said = finetuned
    result = json.loads((folder / "result.json").read_text())
    assert said.splitlines()[-1].startswith("CoLA: mcc") and result["metric"] == "mcc"
    out = tmp_path / "it's a (sweep), é=[1]"
    printed = cli.sweep("glue", checkpoint, glue, out, names="CoLA", lrs="1e-2,1e-4").stdout
    assert len(list(out.rglob("result.json"))) == 2 and "| CoLA |" in printed
    written = [path.stat().st_mtime_ns for path in out.rglob("result.json")]
    again = cli.sweep("glue", checkpoint, glue, out, names="CoLA", lrs="1e-2,1e-4").stdout
    assert [path.stat().st_mtime_ns for path in out.rglob("result.json")] == written
    assert [line for line in again.splitlines() if line.startswith("|")]
    options = ("--published", "--format", "json")
    ours, theirs, *_ = json.loads(cli.tupe("table", f"TUPE-R={out}", options=options).stdout)
    scores = [json.loads(path.read_text())["score"] for path in out.rglob("result.json")]
    assert ours["system"] == "TUPE-R" and ours["cells"]["CoLA"]["score"] == pytest.approx(max(scores))
    assert theirs["cells"]["CoLA"]["score"] > 50
    out = tmp_path / "predictions"
    cli.tupe("predict", folder / "checkpoint_best.pt", glue / "CoLA", out=out, options=["--partial"])
    rows = (out / "CoLA.tsv").read_text().splitlines()
    assert len(rows) == 1 + ROWS and {row.split("\t")[1] for row in rows[1:]} <= {"0", "1"}


WITHOUT_TUPE = """
import sys
sys.modules.update(dict.fromkeys(("tupe", "fairseq")))  # an import of them fails
import torch, transformers
model = transformers.AutoModel.from_pretrained({folder!r}, trust_remote_code=True).eval()
tokenizer = transformers.AutoTokenizer.from_pretrained({folder!r}, trust_remote_code=True)
tokens = torch.tensor(tokenizer("Anna sees the house")["input_ids"])[None]
mask = torch.ones_like(tokens)
with torch.no_grad():
    torch.save((tokens, model(tokens, attention_mask=mask).last_hidden_state), {out!r})
mask[0, 0] = 0
try:
    model(tokens, attention_mask=mask)
except ValueError:
    sys.exit()
sys.exit("padding on the left is taken")
"""


def test_exported_loaded_without_tupe_and_imported_again(checkpoint, data, tmp_path):
    folder, out = tmp_path / "exported", tmp_path / "features.pt"
    cli.tupe("export", checkpoint, data, out=folder)
    cli.python(WITHOUT_TUPE.format(folder=str(folder), out=str(out)))
    tokens, found = torch.load(out)
    expected = features(checkpoint, data, tokens)
    assert tokens.shape[1] > 4
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    cli.tupe("import", folder, out=tmp_path / "imported.pt")
    torch.testing.assert_close(features(tmp_path / "imported.pt", data, tokens), expected, rtol=0, atol=0)


def test_another_librarys_model_there_and_back(bert, tmp_path):
    """Imported and exported, it says of a text what it said."""
    transformers = pytest.importorskip("transformers")
    folder, model = bert
    cli.tupe("import", folder, out=tmp_path / "imported", options=cli.VERIFY)
    cli.tupe("export", tmp_path / "imported/checkpoint.pt", tmp_path / "imported", out=tmp_path / "exported")
    auto, exported = transformers.AutoModelForMaskedLM, tmp_path / "exported"
    ours = auto.from_pretrained(exported, trust_remote_code=True).eval()
    tokenizers = [transformers.AutoTokenizer.from_pretrained(path) for path in (folder, exported)]
    before, after = (torch.tensor(of("a dog.")["input_ids"])[None] for of in tokenizers)
    with torch.no_grad():
        wanted, found = model(before).logits, ours(after).logits
    assert before.shape == after.shape
    # symbols are in another order
    names = [of.convert_ids_to_tokens(range(wanted.shape[2])) for of in tokenizers]
    places = [[of.index(letter) for letter in "abcxyz"] for of in names]
    torch.testing.assert_close(found[..., places[1]], wanted[..., places[0]], rtol=0, atol=1e-5)


def test_electra(data, glue, tmp_path):
    keys = ("+model.generator_size=0.5", "optimization.max_update=6")
    said = cli.pretrain(data, tmp_path / "run", *keys, config="electra", model="electra_tupe_r_tiny").stdout
    log, last = train_log(said), tmp_path / "run/checkpoint_last.pt"
    assert len(log["train_inner"]) == 6 and 0 <= float(log["valid"][-1]["valid_disc_auc"]) <= 100
    tokens = torch.tensor([0, 7, 8, 9, 2])
    cli.tupe("convert-electra", last, out=tmp_path / "plain.pt")
    plain = features(tmp_path / "plain.pt", data, tokens)
    torch.testing.assert_close(plain, features(last, data, tokens, ElectraModel), rtol=0, atol=1e-6)
    cli.finetune("CoLA", last, glue, tmp_path / "cola", "recipe=electra")
    assert json.loads((tmp_path / "cola/result.json").read_text())["metric"] == "mcc"


def squad(*paragraphs):
    """SQuAD's JSON of texts, each with a question and the answer."""
    made = []
    for number, (context, question, answer) in enumerate(paragraphs):
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        made.append({"context": context, "qas": [{"id": str(number), "question": question, "answers": answers}]})
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": made}]}, ensure_ascii=False)


def test_many_languages(checkpoint, data, glue, tmp_path):
    """XNLI, and questions tested on XQuAD and MLQA: a sweep, its predictions and its table."""
    (tmp_path / "en.json").write_text(squad(*[(f"Anna sees {thing}.", "Who?", "Anna") for thing in THINGS] * 2))
    for language in ("ar", "zh"):
        text = squad((LINES[language], "?", LINES[language][4:9]))
        (tmp_path / f"{language}.json").write_text(text, encoding="utf-8")
    files = {split: tmp_path / f"{split[-2:]}.json" for split in ("test-ar", "test-zh")}
    tests = [f"{split}={path}" for split, path in files.items()]
    trained = [f"{split}={tmp_path / 'en.json'}" for split in ("train", "valid")]
    tasks = tmp_path / "tasks"
    for task, splits, rules in (("SQuAD", trained, "squad"), ("XQuAD", tests, "squad"), ("MLQA", tests, "mlqa")):
        cli.tupe("prepare-qa", data, *splits, out=tasks / task, options=("--rules", rules, *cli.WORKERS))
    (tasks / "XNLI").symlink_to(glue / "XNLI")
    out, short = tmp_path / "sweep", ("task.max_query=8", "task.doc_stride=8")
    cli.sweep("xtreme", checkpoint, tasks, out / "1", names="XNLI", lrs="1e-3")
    cli.sweep("xtreme", checkpoint, tasks, out / "2", *short, names="SQuAD", lrs="1e-3")
    metrics = {path.parts[-4]: json.loads(path.read_text())["metrics"] for path in out.rglob("result.json")}
    assert set(metrics["XNLI"]) == {"valid", *(f"XNLI/test-{language}" for language in LANGUAGES)}
    assert set(metrics["SQuAD"]) == {"valid", *(f"{of}/{split}" for of in ("XQuAD", "MLQA") for split in files)}
    (labels,) = out.rglob("predictions/XNLI/test-sw.tsv")
    assert len(labels.read_text().splitlines()) == ROWS and {*labels.read_text().split()} <= {*CLASSES}
    (answers,) = out.rglob("predictions/XQuAD/test-zh.json")
    scored = json.loads(cli.tupe("qa-score", files["test-zh"], answers).stdout)
    assert scored == pytest.approx(metrics["SQuAD"]["XQuAD/test-zh"])
    options = ("--published", "xtreme", "--by-language", "--format", "json")
    rows = json.loads(cli.tupe("table", out / "1", options=options).stdout)
    assert rows[0]["cells"]["XNLI sw"]["score"] is not None and rows[1]["cells"]["XNLI"]["score"] == 67.0


def test_translation(translator, parallel):
    said = cli.generate(parallel, translator).stdout
    found = {int(number) for number in re.findall(r"^D-(\d+)\t", said, re.MULTILINE)}
    assert found == set(range(ROWS)) and re.search(r"BLEU4? = \d", said)


def test_a_study_of_two_systems(text, tmp_path):
    (tmp_path / "small.yaml").write_text(cli.DESIGN)
    places = {"design": tmp_path / "small.yaml", "out": tmp_path / "out", "records": tmp_path / "records"}
    cli.study(text, **places)
    records = [json.loads(path.read_text()) for path in (tmp_path / "records").glob(cli.FINAL)]
    assert len(records) == 2, [*(tmp_path / "records").rglob("*")]
    assert all(5 < cli.LOSS(record) < 8 for record in records)  # bits, of 150 symbols
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*.json")}
    cli.study(**places)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("*.json")}
