"""`sweep.json`: what a sweep is of, and the runs that it should have when it is complete."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from tupe.errors import UserError
from tupe.files import checked, own, read, write
from tupe.finetuning.runs import Run

NAME = "sweep.json"
MADE_BY = "scripts/glue.sh"


@dataclass(frozen=True)
class Plan:
    """A sweep of one checkpoint.

    Attributes:
        checkpoint: the pre-trained checkpoint.
        sha256: of that file.
        model: its model's name, with the fields that were given.
        updates: how many updates it was pre-trained for.
        data: folder of the prepared GLUE tasks.
        overrides: of the fine-tuning configuration, beyond learning rate and seed.
        runs: what was asked for.
        data_sha256: of each task's data.
    """

    checkpoint: str
    sha256: str
    model: str
    updates: int = checked(minimum=0)
    data: str
    overrides: tuple[str, ...]
    runs: tuple[Run, ...]
    data_sha256: dict[str, str] = checked(default_factory=dict)

    @classmethod
    def load(cls, out: Path) -> Plan:
        """Reads the plan of the sweep in `out`. Raises a `UserError` if there is none, or if it is damaged."""
        return read(out / NAME, cls, f"{MADE_BY} or scripts/xtreme.sh", "move it away and start the sweep again")

    def join(self, out: Path) -> Plan:
        """Writes the plan to `out`; runs that were planned there before stay in it.

        Raises:
            UserError: if `out` holds something else, or a sweep of another checkpoint, other data or other settings, so
                that the results would be mixed.
        """
        of = {"checkpoint": self.sha256, "overrides": list(self.overrides)}
        earlier = os.listdir(out) if (out / NAME).is_file() else ()  # by a version that left no identity
        with own(out, MADE_BY, of, besides=earlier, wait=True):
            plan = self
            if (out / NAME).exists():
                before = Plan.load(out)
                for name in ("sha256", "overrides"):
                    if getattr(before, name) != getattr(self, name):
                        raise UserError(f"{out} holds a sweep with other {name}: choose another folder.")
                for task, checksum in self.data_sha256.items():
                    if before.data_sha256.get(task, checksum) != checksum:
                        raise UserError(f"{out} holds a sweep of other data of {task}: choose another folder.")
                runs = tuple(dict.fromkeys((*before.runs, *self.runs)))
                plan = replace(self, runs=runs, data_sha256={**before.data_sha256, **self.data_sha256})
            write(out / NAME, plan)
        return plan
