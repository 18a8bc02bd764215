"""Each benchmark measures every rival in one small round."""

import json
import sys

from tests.commands import ROOT, run

SHORT = ("--rounds", "1", "--warm-up", "0", "--steps", "1", "--device", "cpu")
BENCHMARKS = ROOT / "lab/benchmarks"


def test_model(tmp_path):
    small = ("--sizes", "tiny", "--batch", "2", "--length", "8", "--vocab-size", "64", "--modes", "training")
    rivals = ["bert_a", "tupe_r", "roberta"]
    script = BENCHMARKS / "model.py"
    run(sys.executable, script, *small, *SHORT, "--rivals", *rivals, "--output", tmp_path, PYTHONPATH=str(ROOT))
    content = json.loads((tmp_path / "model.json").read_text())
    assert "2 sequences of 8 tokens, vocabulary 64" in content["run"]
    assert [record["rival"] for record in content["records"]] == rivals
    assert content["records"][0]["time_over_first"] == [1.0] * 3
    assert all(record["milliseconds"][1] > 0 for record in content["records"])
    assert (tmp_path / "model.md").read_text().count("\n| tiny | training | ") == len(rivals)


def test_everything_for_a_gpu_in_small(tmp_path):
    done = run("bash", BENCHMARKS / "gpu.sh", "--dry-run", tmp_path, PYTHON=sys.executable)
    assert done.stdout.rstrip().endswith(f"gpu.sh: done (see {tmp_path})")
    errors = [line for line in (tmp_path / "correctness.log").read_text().splitlines() if line.startswith("| ")][1:]
    assert {line.split(" | ")[0] for line in errors} == {"| sdpa", "| factors", "| triton"}
    assert all(0 < float(line.split(" | ")[3]) <= 1 for line in errors)
    for name in ("steps", "ragged"):
        records = json.loads((tmp_path / name / "steps.json").read_text())["records"]
        assert {"tupe_a", "rope", "Transformers' ModernBERT"} <= {r["rival"] for r in records if "milliseconds" in r}
    assert "triton" in (tmp_path / "attention/attention.md").read_text()
