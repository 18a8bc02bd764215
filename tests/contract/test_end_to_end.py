"""Whole ways by the commands, in small: from a text to predictions, to Transformers and back, and a study."""

import json
import math
import re
import sys

import pytest
import torch

from tests.commands import train_log
from tests.contract import aliases as cli
from tests.contract.aliases import ElectraModel, TupeModel, opened, run, tupe_command
from tests.contract.conftest import LANGUAGES, RAW, TEXT

ROWS = 12  # of a test set


def features(checkpoint, data, tokens, kind=TupeModel):
    with torch.no_grad():
        return opened(checkpoint, data, kind).extract_features(tokens)


def times(folder, name):
    return {path: path.stat().st_mtime_ns for path in folder.rglob(name)}


def table(*arguments):
    return json.loads(tupe_command("table", *arguments, "--format", "json").stdout)


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
        of_both.append([[float(r[name]) for name in ("loss", "gnorm", "bsz")] for r in train_log(said)["train_inner"]])
    assert of_both[0] == [pytest.approx(numbers, abs=2e-3) for numbers in of_both[1]] and len(of_both[0]) == 6
    assert {numbers[2] for numbers in of_both[0]} == {8}


def test_from_finetuning_to_predictions(finetuned, checkpoint, glue, tmp_path):
    folder, said = finetuned
    result = json.loads((folder / "result.json").read_text())
    assert said.splitlines()[-1].startswith("CoLA: mcc") and result["metric"] == "mcc"
    out = tmp_path / "it's a (sweep), é=[1]"
    printed = cli.sweep("glue", checkpoint, glue, out, names="CoLA", lrs="1e-2,1e-4").stdout
    assert len(list(out.rglob("result.json"))) == 2 and "| CoLA |" in printed
    written = times(out, "result.json")
    again = cli.sweep("glue", checkpoint, glue, out, names="CoLA", lrs="1e-2,1e-4").stdout
    assert times(out, "result.json") == written and "\n|" in again
    ours, theirs, *_ = table(f"TUPE-R={out}", "--published", "base")
    scores = [json.loads(path.read_text())["score"] for path in out.rglob("result.json")]
    assert ours["system"] == "TUPE-R" and ours["cells"]["CoLA"]["score"] == pytest.approx(max(scores))
    assert theirs["cells"]["CoLA"]["score"] > 50
    out = tmp_path / "predictions"
    tupe_command("predict", folder / "checkpoint_best.pt", glue / "CoLA", out)
    rows = (out / "CoLA.tsv").read_text().splitlines()
    assert len(rows) == 1 + ROWS and {row.split("\t")[1] for row in rows[1:]} <= {"0", "1"}


def test_exported_loaded_without_tupe_and_imported_again(checkpoint, data, tmp_path):
    folder, out = tmp_path / "exported", tmp_path / "features.pt"
    tupe_command("export", checkpoint, data, folder)
    run(sys.executable, RAW.parent / "without_tupe.py", folder, out)
    tokens, found = torch.load(out)
    expected = features(checkpoint, data, tokens)
    assert tokens.shape[1] > 4
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    tupe_command("import", folder, tmp_path / "imported.pt")
    torch.testing.assert_close(features(tmp_path / "imported.pt", data, tokens), expected, rtol=0, atol=0)


def test_another_librarys_model_there_and_back(tmp_path):
    """Imported and exported, it says of a text what it said."""
    transformers = pytest.importorskip("transformers")
    imported, exported = tmp_path / "imported", tmp_path / "exported"
    tupe_command("import", RAW / "bert", imported)
    tupe_command("export", imported / "checkpoint.pt", imported, exported)
    lengths, said = [], []
    for folder in (RAW / "bert", exported):
        model = transformers.AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=True).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
        tokens = torch.tensor(tokenizer("a dog.")["input_ids"])[None]
        lengths.append(tokens.shape[1])
        with torch.no_grad():  # symbols are in another order
            said.append(model(tokens).logits[..., tokenizer.convert_tokens_to_ids([*"abcxyz"])])
    assert lengths[0] == lengths[1]
    torch.testing.assert_close(said[1], said[0], rtol=0, atol=1e-5)


def test_electra(data, glue, tmp_path):
    keys = ("+model.generator_size=0.5", "optimization.max_update=6")
    said = cli.pretrain(data, tmp_path / "run", *keys, config="electra", model="electra_tupe_r_tiny").stdout
    log, last = train_log(said), tmp_path / "run/checkpoint_last.pt"
    assert len(log["train_inner"]) == 6 and 0 <= float(log["valid"][-1]["valid_disc_auc"]) <= 100
    tokens = torch.tensor([0, 7, 8, 9, 2])
    tupe_command("convert", "electra", last, tmp_path / "plain.pt")
    plain = features(tmp_path / "plain.pt", data, tokens)
    torch.testing.assert_close(plain, features(last, data, tokens, ElectraModel), rtol=0, atol=1e-6)
    cli.finetune("CoLA", last, glue, tmp_path / "cola", "recipe=electra")
    assert json.loads((tmp_path / "cola/result.json").read_text())["metric"] == "mcc"
    best = torch.load(tmp_path / "cola/checkpoint_best.pt", weights_only=True)
    assert best["last_optimizer_state"] is None and best["cfg"]["lr_scheduler"]["layer_decay"] == 0.8
    pretraining = ("generator.", "discriminator_head.", "encoder.lm_head.")
    assert not [name for name in best["model"] if name.startswith(pretraining)]


def test_many_languages(checkpoint, data, glue, tmp_path):
    """XNLI, and questions tested on XQuAD and MLQA: a sweep, its predictions and its table."""
    tests = [f"test-{language}={RAW}/qa/{language}.json" for language in ("ar", "zh")]
    trained = (f"train={RAW}/qa/en.json", f"valid={RAW}/qa/en.json")
    tasks = tmp_path / "tasks"
    for task, splits, rules in (("SQuAD", trained, "squad"), ("XQuAD", tests, "squad"), ("MLQA", tests, "mlqa")):
        tupe_command("prepare-qa", *splits, data, tasks / task, "--rules", rules, *cli.WORKERS)
    (tasks / "XNLI").symlink_to(glue / "XNLI")
    out, short = tmp_path / "sweep", ("task.max_query=8", "task.doc_stride=8")
    cli.sweep("xtreme", checkpoint, tasks, out / "1", names="XNLI", lrs="1e-3")
    cli.sweep("xtreme", checkpoint, tasks, out / "2", *short, names="SQuAD", lrs="1e-3")
    metrics = {path.parts[-4]: json.loads(path.read_text())["metrics"] for path in out.rglob("result.json")}
    assert set(metrics["XNLI"]) == {"valid", *(f"XNLI/test-{language}" for language in LANGUAGES)}
    splits = [f"{task}/test-{language}" for task in ("XQuAD", "MLQA") for language in ("ar", "zh")]
    assert set(metrics["SQuAD"]) == {"valid", *splits}
    (labels,) = out.rglob("predictions/XNLI/test-sw.tsv")
    assert len(labels.read_text().splitlines()) == ROWS
    assert {*labels.read_text().split()} <= {"contradiction", "neutral", "entailment"}
    (answers,) = out.rglob("predictions/XQuAD/test-zh.json")
    scored = json.loads(tupe_command("qa-score", RAW / "qa/zh.json", answers).stdout)
    assert scored == pytest.approx(metrics["SQuAD"]["XQuAD/test-zh"])
    ours, theirs, *_ = table(out / "1", "--published", "xtreme", "--by-language")
    assert ours["cells"]["XNLI sw"]["score"] is not None and theirs["cells"]["XNLI"]["score"] == 67.0


def test_translation(translator, parallel, tmp_path):
    tupe_command("convert", "average", translator, translator, tmp_path / "mean.pt")
    said = cli.generate(parallel, tmp_path / "mean.pt").stdout
    found = {int(number) for number in re.findall(r"^D-(\d+)\t", said, re.MULTILINE)}
    assert found == set(range(ROWS)) and re.search(r"BLEU4? = \d", said)


def test_a_study_of_two_systems(tmp_path):
    def study(*texts):
        command = ("bash", "scripts/study.sh", *texts, "--size", RAW / "study.yaml")
        run(*command, "--out", tmp_path / "out", "--records", tmp_path / "records")
        return times(tmp_path / "records", "*.json")

    before = study(TEXT)
    records = [json.loads(path.read_text()) for path in (tmp_path / "records").glob("*/final/*.json")]
    assert len(records) == 2, [*before]
    assert all(5 < record["curve"][-1][1] < 8 for record in records)  # bits, of 150 symbols
    assert before == study()
