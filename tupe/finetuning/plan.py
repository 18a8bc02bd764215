"""`sweep.json`: what a sweep is of, and the runs that it should have when it is complete."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tupe.errors import UserError
from tupe.files import write_json
from tupe.finetuning.runs import Run

NAME = "sweep.json"


@dataclass(frozen=True)
class Plan:
    """A sweep of one checkpoint.

    Attributes:
        checkpoint: the pre-trained checkpoint.
        sha256: of that file.
        model: its model's name.
        updates: how many updates it was pre-trained for.
        data: folder of the prepared GLUE tasks.
        overrides: of the fine-tuning configuration, beyond learning rate and seed.
        runs: what was asked for.
    """

    checkpoint: str
    sha256: str
    model: str
    updates: int
    data: str
    overrides: tuple[str, ...]
    runs: tuple[Run, ...]

    @classmethod
    def load(cls, out: Path) -> Plan:
        """Reads the plan of the sweep in `out`.

        Raises:
            UserError: if there is none.
        """
        path = out / NAME
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            runs = tuple(Run(**run) for run in content.pop("runs"))
            return cls(**{**content, "overrides": tuple(content["overrides"]), "runs": runs})
        except FileNotFoundError:
            raise UserError(f"there is no {path}: give a folder that scripts/glue.sh wrote.") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"{path} is not what scripts/glue.sh writes: move it away and start the sweep again."
            ) from None

    def join(self, out: Path) -> Plan:
        """Writes the plan to `out`; runs that were planned there before stay in it.

        Raises:
            UserError: if the sweep in `out` is of something else, so that the results would be mixed.
        """
        plan = self
        if (out / NAME).exists():
            before = Plan.load(out)
            for name in ("sha256", "data", "overrides"):
                if getattr(before, name) != getattr(self, name):
                    what = {"sha256": "another checkpoint", "data": "other data", "overrides": "other settings"}[name]
                    raise UserError(f"{out} holds a sweep of {what} ({before.describe(name)}): choose another folder.")
            plan = replace(self, runs=tuple(dict.fromkeys((*before.runs, *self.runs))))
        write_json(out / NAME, asdict(plan))
        return plan

    def describe(self, name: str) -> str:
        """The value of a field for a message."""
        if name == "sha256":
            return f"{self.checkpoint} as it was, {self.updates:,} updates"
        value = getattr(self, name)
        return (" ".join(value) or "the configuration's") if name == "overrides" else value
