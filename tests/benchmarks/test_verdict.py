"""The verdict of the rule for `auto`, and the script that measures for it, in a dry run."""

import json
import sys

import pytest

from tests.commands import ROOT, run
from tupe.errors import UserError

RIVALS = {"ours": 1.0, "flash": 0.5, "sdpa": 1.5, "flex": 1.2}


@pytest.fixture
def verdict(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import verdict

    return verdict


def records(times, length=512):
    each = {"mode": "forward + backward", "length": length}
    found = [{**each, "rival": rival, "milliseconds": [ms, ms, ms]} for rival, ms in times.items()]
    return [*found, {**each, "rival": "factors", "missing": "no"}, {**each, "mode": "forward", "rival": "flex"}]


@pytest.mark.parametrize(
    ("kernels", "said"), [(1.0, "auto keeps the kernels"), (1.07, "keeps the kernels"), (1.09, "auto takes flex")]
)
def test_ten_percent(verdict, kernels, said):
    """FlashAttention without a bias is the limit, and no rival."""
    times = verdict.by_length(records({**RIVALS, "ours": kernels}))[512]
    assert times == {"kernels": kernels, "sdpa": 1.5, "flex": 1.2}
    assert verdict.decide(times).endswith(said)


def test_no_verdict_without_rivals(verdict):
    assert verdict.decide({"kernels": 1.0}).startswith("no verdict")
    assert verdict.decide({"sdpa": 1.0}).startswith("no verdict")


def test_a_training_step(verdict, tmp_path):
    names = {"tupe_a_triton": 9.0, "tupe_a_sdpa": 10.0, "tupe_a_factors": 10.5}
    steps = [
        {"rival": name, "mode": "training", "size": "base", "milliseconds": [ms] * 3} for name, ms in names.items()
    ]
    names = {"tupe_a_triton": 9.0, "tupe_a_sdpa": 10.0, "tupe_a_flex": 8.0}  # which cannot drop attention weights
    steps += [{**steps[0], "rival": n, "attention_dropout": 0.0, "milliseconds": [ms] * 3} for n, ms in names.items()]
    (tmp_path / "model.json").write_text(json.dumps({"records": steps}))
    done = run(sys.executable, "benchmarks/verdict.py", "--model", tmp_path / "model.json")
    assert done.stdout == (
        "verdict, a training step of base: the kernels take 9 ms, sdpa takes 10 ms, a ratio of 0.90: "
        "auto keeps the kernels\n"
        "verdict, a training step of base without attention dropout: the kernels take 9 ms, flex takes 8 ms, a ratio "
        "of 1.12: auto takes flex\n"
    )


@pytest.mark.parametrize(
    "content", ["[1]", '{"records": []}', '{"records": 3}', '{"records": [{"rival": "tupe_a_sdpa"}]}']
)
def test_a_file_of_something_else(content, verdict, tmp_path):
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(UserError, match=rf"^{tmp_path}/model\.json has no records .* of benchmarks/model\.py wrote"):
        verdict.read_times(tmp_path / "model.json", "benchmarks/model.py", verdict.by_size)


def test_a_dry_run_prints_the_verdict(tmp_path):
    done = run("bash", "benchmarks/gpu.sh", "--dry-run", tmp_path, "attention", "graphs", PYTHON=sys.executable)
    assert "verdict, attention at 16 tokens: the kernels take " in done.stdout
    assert done.stdout.endswith(f"gpu.sh: done (see {tmp_path})\n")
    failing = run("bash", "benchmarks/gpu.sh", "--dry-run", tmp_path, "finetuning", PYTHON=sys.executable, check=False)
    assert failing.returncode == 1
    assert "gpu.sh: FAILED in finetuning" in failing.stdout
