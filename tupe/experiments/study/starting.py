"""Make the checkpoint of one row of a study into the system of another row: the command, and its record."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tupe.errors import UserError
from tupe.experiments.process import python_command
from tupe.experiments.runs import LOG
from tupe.experiments.study.design import Design, Run
from tupe.experiments.study.records import Conversion, this_machine

#: Name of the checkpoint in the run's folder.
CHECKPOINT = "start.pt"
_SECONDS = re.compile(r"^it took ([\d.]+) s of the processor", re.MULTILINE)


def start_settings(design: Design, run: Run, pretraining: dict[str, Any]) -> dict[str, Any]:
    """Return all that a converted checkpoint depends on: the pre-training, and the conversion itself."""
    model, how = design.model(run.system), asdict(design.systems[run.system].start)
    return {"start": {**how, "model": model, "fields": _fields(design, run)}, "of": pretraining}


def start_command(design: Design, run: Run, checkpoint: Path, corpus: Path, folder: Path) -> list[str]:
    """Return the command, which writes a new file into `folder`."""
    how = design.systems[run.system].start
    options = ["--data", corpus, "--positions", how.positions, "--seed", run.seed]
    files = [checkpoint, folder / CHECKPOINT]
    return python_command("tupe", "warm-start", *files, design.model(run.system), *_fields(design, run), *options)


def start_record(of: dict[str, Any], folder: Path) -> Conversion:
    """Return the record of the conversion whose log is in `folder`."""
    found = _SECONDS.findall((folder / LOG).read_text(encoding="utf-8", errors="replace"))
    if not found:
        raise UserError(f"{folder / LOG} does not say how long the conversion took: remove {folder}, and start again.")
    return Conversion(settings=of, seconds=float(found[-1]), **this_machine())


def _fields(design: Design, run: Run) -> list[str]:
    """Return the fields of the model that the row's own settings change, as `FIELD=VALUE`."""
    settings = {key.lstrip("+"): value for key, value in design.systems[run.system].settings.items()}
    return [f"{key.removeprefix('model.')}={value}" for key, value in settings.items() if key.startswith("model.")]
