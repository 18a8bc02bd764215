"""What is done with the checkpoints of a study, and what its systems cost: commands of the house, and their records."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Optional

from tupe.analysis.cost import read_costs
from tupe.finetuning.table import read_sweep
from tupe.study.design import ROOT, Design, Run
from tupe.study.records import Cost, FineTuning, these_versions, this_host


def sweep_settings(design: Design, run: Run, pretraining: dict[str, Any]) -> dict[str, Any]:
    """All that a sweep's scores depend on: the pre-training, and the sweep itself."""
    sweep = design.finetuning
    of = {"tasks": sweep.tasks, "rates": sweep.rates, "seeds": sweep.seeds, "settings": sweep.settings}
    return json.loads(json.dumps({"run": str(run), "after": design.after(run.at), "sweep": of, "of": pretraining}))


def sweep_launch(design: Design, checkpoint: Path, glue: Path, folder: Path) -> tuple[list[str], dict[str, str]]:
    """`scripts/glue.sh` and its environment."""
    sweep = design.finetuning
    listed = {"TASKS": sweep.tasks, "LRS": sweep.rates, "SEEDS": sweep.seeds}
    command = ["bash", str(ROOT / "scripts/glue.sh"), str(checkpoint), str(glue), str(folder), *sweep.settings]
    return command, {name: ",".join(map(str, values)) for name, values in listed.items()}


def sweep_record(of: dict[str, Any], folder: Path, processor_seconds: float) -> Optional[FineTuning]:
    """What the sweep in `folder` gave; None if runs of it failed, which it does again when it is asked again."""
    row = read_sweep(folder)
    if row.failed:
        return None
    scores = {name: {f"{rate.lr:g}": rate.scores for rate in cell.rates} for name, cell in row.cells.items()}
    return FineTuning(of, scores, round(processor_seconds, 1), this_host(), these_versions())


def cost_settings(design: Design) -> dict[str, Any]:
    """What is measured."""
    return {"run": "cost", "arguments": list(design.cost)}


def cost_launch(design: Design, folder: Path) -> tuple[list[str], dict[str, str]]:
    """`benchmarks/model.py`, in the environment of the scripts."""
    start = f'. "{ROOT}/scripts/lib/command.sh"; for_cpu 1; exec "$@"'
    command = [sys.executable, str(ROOT / "benchmarks/model.py"), *design.cost, "--output", str(folder)]
    return ["bash", "-c", start, "study", *command], {}


def cost_record(of: dict[str, Any], folder: Path) -> Cost:
    """What it measured."""
    conditions, records = read_costs(folder / "model.json")
    times: dict[str, dict[str, tuple[float, float, float]]] = {}
    for record in records:
        times.setdefault(record["rival"], {})[record["mode"]] = tuple(record["time_over_first"])
    return Cost(of, conditions, times, this_host(), these_versions())
