"""Cost bars from what the benchmark writes."""

import json

import pytest

from tupe.analysis.cost import plot_costs, read_costs
from tupe.errors import UserError

RECORDS = [
    {"size": size, "mode": mode, "rival": rival, "time_over_first": [0.9 * ratio, ratio, 1.2 * ratio], "peak_bytes": 1}
    for size in ("small", "base")
    for mode in ("training", "inference")
    for rival, ratio in (("bert_a", 1.0), ("shaw", 1.3))
]


def test_bars(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"run": "a machine", "records": RECORDS}))
    run, records = read_costs(path)
    assert run == "a machine"
    assert len(records) == 8
    plot_costs(run, records, tmp_path / "cost.svg")
    text = (tmp_path / "cost.svg").read_text()
    assert all(part in text for part in ("base training", "shaw", "1.30", "over bert_a"))


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"run": "x", "records": []}', '{"run": "x", "records": [{"size": 1}]}']
)
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"is no model\.json"):
        read_costs(path)
