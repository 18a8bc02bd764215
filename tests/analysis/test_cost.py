"""Cost bars from what the benchmark writes."""

import json
import math

import pytest

from tupe.analysis.cost import cost_rows, plot_costs, read_costs
from tupe.cli.main import main
from tupe.errors import UserError

RECORDS = [
    {
        **{"size": size, "mode": mode, "rival": rival},
        **{"time_over_first": [0.9 * ratio, ratio, 1.2 * ratio], "tokens_per_second": 100},
    }
    for size in ("small", "base")
    for mode in ("training", "inference")
    for rival, ratio in (("bert_a", 1.0), ("shaw", 1.3))
]


@pytest.fixture
def measured(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"run": "a machine", "records": RECORDS}))
    return path


def test_bars(measured, tmp_path):
    run, records = read_costs(measured)
    assert run == "a machine"
    assert len(records) == 8
    heads, first, second = cost_rows(records)
    assert heads == ["model", "small training", "small inference", "base training", "base inference"]
    assert (first[0], second[4]) == ("bert_a", "1.30 (1.17-1.56)")
    plot_costs(run, records, tmp_path / "cost.svg")
    text = (tmp_path / "cost.svg").read_text()
    assert all(part in text for part in ("base training", "shaw", "1.30", "over bert_a"))


def test_the_page_has_them(measured, save, tmp_path):
    arguments = ["report", tmp_path / "page.html", save("tupe_tiny")[0], "--cost", measured]
    assert main(list(map(str, arguments))) == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "quartiles. a machine</p>" in text
    assert "<tr><td>shaw</td>" + 4 * "<td>1.30 (1.17-1.56)</td>" in text


@pytest.mark.parametrize(
    "content",
    [
        *("[]", "{}", '{"run": "x", "records": []}', '{"run": "x", "records": [{"size": 1}]}'),
        *(json.dumps({"run": "x", "records": [{**RECORDS[0], "tokens_per_second": n}]}) for n in (0, math.nan, None)),
    ],
)
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"is no model\.json"):
        read_costs(path)
