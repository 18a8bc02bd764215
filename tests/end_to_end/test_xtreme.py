"""Questions by the real commands; the sweep of all languages is in tests/contract/test_end_to_end.py."""

import pytest

from tests.commands import run, train_log
from tests.data.conftest import LINES, write_corpus, write_json
from tests.tasks.test_question_answering import made_questions
from tupe.cli.main import main


@pytest.fixture(scope="module")
def squad(tmp_path_factory):
    """Prepared questions in English."""
    folder = tmp_path_factory.mktemp("xtreme")
    corpus = write_corpus(folder / "corpus", [*LINES.values()] * 20, 180)
    made = write_json(folder / "made.json", made_questions(20))
    command = ["prepare-qa", f"train={made}", f"valid={made}", str(corpus), str(folder / "SQuAD"), "--workers", "1"]
    assert main(command) == 0
    return folder / "SQuAD"


def test_two_processes_score_as_one(squad, tmp_path):
    """Windows of one question are on both; the second run starts where the first ends, and learns nothing."""
    scores = []
    for processes, updates in ((1, 60), (2, 1)):
        launcher = ("torchrun", "--standalone", "--nproc-per-node", processes, "--no-python") if processes > 1 else ()
        start = ("--finetune-from-model", tmp_path / "1/checkpoint_last.pt") if processes > 1 else ()
        done = run(
            *launcher, "fairseq-train", squad, "--user-dir", "tupe", "--arch", "tupe_tiny",
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
