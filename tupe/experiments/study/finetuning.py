"""Fine-tune the checkpoints of a study and measure its systems' costs: the commands, and their records."""

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path
from typing import Any

from tupe.analysis.cost import read_costs
from tupe.errors import UserError
from tupe.experiments.process import python_command
from tupe.experiments.study.design import Design, Run
from tupe.experiments.study.records import Cost, FineTuning, this_machine
from tupe.experiments.table import read_sweep
from tupe.fairseq_patches.patching import replaced
from tupe.user_dir import config_dir

BENCHMARK = config_dir().parent / "benchmarks/model.py"


def sweep_settings(design: Design, run: Run, pretraining: dict[str, Any]) -> dict[str, Any]:
    """Return all that a sweep's scores depend on: the pre-training, and the sweep itself."""
    sweep = design.finetuning
    of = {"tasks": sweep.tasks, "rates": sweep.rates, "seeds": sweep.seeds, "settings": sweep.settings}
    return json.loads(json.dumps({"run": str(run), "after": design.after(run.at), "sweep": of, "of": pretraining}))


def sweep_command(design: Design, checkpoint: Path, glue: Path, folder: Path) -> list[str]:
    sweep = design.finetuning
    lists = {"--tasks": sweep.tasks, "--lrs": sweep.rates, "--seeds": sweep.seeds}
    options = [f"{name}={','.join(map(str, values))}" for name, values in lists.items()]
    return python_command("tupe", "sweep", "glue", *options, checkpoint, glue, folder, *sweep.settings)


def sweep_record(of: dict[str, Any], folder: Path, processor_seconds: float) -> FineTuning | None:
    """Return the record of the sweep in `folder`; None if runs of it failed, which are done again the next time."""
    row = read_sweep(folder)
    if row.failed:
        return None
    scores = {name: {f"{rate.lr:g}": rate.scores for rate in cell.rates} for name, cell in row.cells.items()}
    seconds = round(processor_seconds, 1)
    return FineTuning(settings=of, scores=scores, processor_seconds=seconds, **this_machine())


def cost_command(design: Design, folder: Path) -> list[str]:
    """Return the command of `benchmarks/model.py`. Raise `UserError` where the package is not in a clone."""
    if not BENCHMARK.is_file():
        raise UserError(
            f"costs are measured by {BENCHMARK.name} of a clone: leave them out by --parts, or run it there."
        )
    return [sys.executable, str(BENCHMARK), *design.cost, "--output", str(folder)]


def check_cost(design: Design) -> None:
    """Raise `UserError` for arguments that `benchmarks/model.py`, if it is there, does not take.

    A `--device` that this machine lacks is taken: the study may be listed on another one.
    """
    if not (design.cost and BENCHMARK.is_file()):
        return
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), replaced(sys, "path", [str(BENCHMARK.parent), *sys.path]):
            runpy.run_path(str(BENCHMARK))["arguments"](design.cost)
    except SystemExit:
        why = said.getvalue().rpartition(" error: ")[2].strip()
        if not why.startswith("argument --device"):
            raise UserError(f"cost of {design.name} is wrong: {why:.300}: see {BENCHMARK} --help.") from None


def cost_record(of: dict[str, Any], folder: Path) -> Cost:
    conditions, records = read_costs(folder / "model.json")
    times: dict[str, dict[str, tuple[float, float, float]]] = {}
    for record in records:
        times.setdefault(record["rival"], {})[record["mode"]] = tuple(record["time_over_first"])
    return Cost(settings=of, conditions=conditions, times=times, **this_machine())
