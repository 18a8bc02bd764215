"""`scripts/xtreme.sh` in small: fine-tuned on English, tested on the languages that are there, and the table of it."""

import json
import shutil

import pytest
import torch

from tests.commands import run, train_log
from tests.data.conftest import LINES, squad, write_corpus, write_json
from tests.data.test_glue import write_task
from tests.samples import write_checkpoint
from tests.tasks.test_question_answering import made_questions
from tupe.cli.main import main
from tupe.data.questions import score_files
from tupe.data.scores import tokens


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The tasks, and a checkpoint in their vocabulary that nothing was taught."""
    folder = tmp_path_factory.mktemp("xtreme")
    corpus = write_corpus(folder / "corpus", [*LINES.values()] * 20, 180)
    made = write_json(folder / "made.json", made_questions(20))
    tests = [
        f"test-{name}={write_json(folder / f'{name}.json', squad((LINES[name], [('a', '?', LINES[name][4:9])])))}"
        for name in ("ar", "zh")
    ]
    for task, files in (("SQuAD", [f"train={made}", f"valid={made}"]), ("XQuAD", tests), ("MLQA", tests)):
        rules = ["--rules", "mlqa"] if task == "MLQA" else []
        assert main(["prepare-qa", *files, str(corpus), str(folder / "data" / task), *rules, "--workers", "1"]) == 0
    write_task(folder / "download", "XNLI")
    command = ["prepare-glue", str(folder / "download"), str(corpus), "XNLI", str(folder / "data")]
    assert main([*command, "--workers", "1"]) == 0
    checkpoint = write_checkpoint(folder / "pretrained/checkpoint_last.pt", folder, max_positions=256)
    state = torch.load(checkpoint, weights_only=True)
    symbols = (folder / "data/SQuAD/dict.txt").read_text().count("\n") + 5
    for name in ("sentence_encoder.embed_tokens.weight", "lm_head.weight", "lm_head.bias"):
        old = state["model"][f"encoder.{name}"]
        state["model"][f"encoder.{name}"] = torch.randn(symbols, *old.shape[1:]) * 0.02
    state["cfg"]["model"]["dictionary_sha256"] = None  # not compared
    torch.save(state, checkpoint)
    return folder, checkpoint


def test_a_sweep_of_all_languages(prepared, capsys):
    folder, checkpoint = prepared
    settings = {"TASKS": "XNLI,SQuAD", "LRS": "1e-3", "SEEDS": "1"}
    command = ["bash", "scripts/xtreme.sh", checkpoint, folder / "data", folder / "out", "optimization.max_epoch=1"]
    done = run(*command, "dataset.num_workers=0", **settings)
    (run_,) = (folder / "out/SQuAD").glob("lr_*/seed_1")
    metrics = json.loads((run_ / "result.json").read_text())["metrics"]
    assert {"valid", "XQuAD/test-ar", "XQuAD/test-zh", "MLQA/test-ar", "MLQA/test-zh"} == set(metrics)
    predictions = run_ / "predictions/MLQA/test-zh.json"
    scores, _ = score_files(folder / "zh.json", predictions, tokens("mlqa", "zh"))
    assert metrics["MLQA/test-zh"] == pytest.approx(scores)
    (run_,) = (folder / "out/XNLI").glob("lr_*/seed_1")
    assert len(json.loads((run_ / "result.json").read_text())["metrics"]) == 1 + 15
    labels = (run_ / "predictions/XNLI/test-sw.tsv").read_text().splitlines()
    assert len(labels) == 8 and set(labels) <= {"contradiction", "neutral", "entailment"}
    assert "| XNLI | XQuAD F1 | XQuAD EM | MLQA F1 | MLQA EM |" in done.stdout
    capsys.readouterr()
    assert main(["table", str(folder / "out"), "--published", "xtreme", "--by-language", "--format", "json"]) == 0
    ours, bert = json.loads(capsys.readouterr().out)[:2]
    assert ours["cells"]["XNLI sw"]["score"] is not None and bert["cells"]["XNLI"]["score"] == 67.0


def test_folders_of_tests_may_be_missing(prepared, tmp_path):
    """A benchmark that is not there is left out of the table, and of the scores."""
    from tupe.finetune.finetune import test

    shutil.copytree(prepared[0] / "data/SQuAD", tmp_path / "SQuAD")
    assert test(tmp_path, [tmp_path / name for name in ("XQuAD", "MLQA", "SQuAD")]) == {}  # English is no test


def test_two_processes_score_as_one(prepared, tmp_path):
    """Windows of one question are on both; the second run starts where the first ends, and learns nothing."""
    scores = []
    for processes, updates in ((1, 60), (2, 1)):
        launcher = ("torchrun", "--standalone", "--nproc-per-node", processes, "--no-python") if processes > 1 else ()
        start = ("--finetune-from-model", tmp_path / "1/checkpoint_last.pt") if processes > 1 else ()
        done = run(
            *launcher, "fairseq-train", prepared[0] / "data/SQuAD", "--user-dir", "tupe", "--arch", "tupe_tiny",
            "--cpu", "--task", "tupe_question_answering", "--criterion", "tupe_question_answering",
            "--max-positions", 48, "--max-query", 12, "--doc-stride", 10, "--max-answer", 60, "--encoder-layers", 1,
            "--batch-size", 8,
            "--optimizer", "adam", "--lr", 0.003 if processes == 1 else 0, "--lr-scheduler", "fixed",
            "--max-update", updates, "--no-epoch-checkpoints", "--num-workers", 0, "--log-format", "json",
            "--save-dir", tmp_path / str(processes), *start,
        )  # fmt: skip
        record = train_log(done.stdout)["valid"][-1]
        scores.append({name: record[f"valid_{name}"] for name in ("exact_match", "f1", "loss")})
    assert scores[0] == scores[1] and 0 < float(scores[0]["f1"]) < 100
