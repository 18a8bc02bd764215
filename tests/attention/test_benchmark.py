"""The benchmark of attention measures every rival that the CPU has."""

import json
import sys

from tests.commands import ROOT, run


def test_on_the_cpu(tmp_path):
    small = {"cases": "3x16", "heads": 2, "width": 8, "rounds": 1, "warm-up": 0, "milliseconds": 1, "device": "cpu"}
    options = ["--ragged", *(f"--{name}={value}" for name, value in small.items())]
    rivals = ["flash", "sdpa", "ours", "factors", "eager", "packed"]
    script = ROOT / "benchmarks" / "attention.py"
    run(sys.executable, script, *options, "--output", tmp_path, "--rivals", *rivals, PYTHONPATH=str(ROOT))
    records = json.loads((tmp_path / "attention.json").read_text())["records"]
    assert len(records) == 3 * len(rivals)  # forward, backward, both
    assert all(record["rival"] == "packed" for record in records if "missing" in record)
