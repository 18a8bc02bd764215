"""Read and write `sweep.json`: the inputs of a sweep, and the runs that it has when it is complete."""

from dataclasses import dataclass, replace
from pathlib import Path

from tupe.errors import UserError
from tupe.experiments.runs import Run
from tupe.files import checked, own, read, write

NAME = "sweep.json"
MADE_BY = "scripts/glue.sh"


@dataclass(frozen=True)
class Plan:
    """A sweep of one checkpoint."""

    checkpoint: str
    sha256: str  # of that file
    model: str  # its model's name, with the fields that were given
    updates: int = checked(minimum=0)  # how many updates it was pre-trained for
    data: str  # folder of the prepared GLUE tasks
    overrides: tuple[str, ...]  # of the fine-tuning configuration, beyond learning rate and seed
    runs: tuple[Run, ...]
    data_sha256: dict[str, str] = checked(default_factory=dict)  # of each task's data

    @classmethod
    def load(cls, out: Path) -> "Plan":
        """Read the plan of the sweep in `out`. Raises a `UserError` if there is none, or if it is damaged."""
        if out.is_file():
            raise UserError(f"{out} is a file: give the folder of a sweep.")
        return read(
            out / NAME, cls, f"tupe sweep, {MADE_BY} or scripts/xtreme.sh", "move it away and start the sweep again"
        )

    def join(self, out: Path) -> "Plan":
        """Write the plan to `out`, with the runs that were planned there before.

        Raises:
            UserError: if `out` holds something else, or a sweep of another checkpoint, other data or other settings.
        """
        made_of = {"checkpoint": self.sha256, "overrides": list(self.overrides)}
        besides = None if (out / NAME).is_file() else ()  # an older version wrote no identity
        with own(out, MADE_BY, made_of, wait=True, besides=besides):
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
            of_folder: dict[Path, Run] = {}
            for run in plan.runs:
                other = of_folder.setdefault(run.folder, run)
                if other != run:
                    raise UserError(
                        f"the learning rates {other.lr!r} and {run.lr!r} have one folder, {run.folder.parent}: round "
                        "them to six digits, or leave one out."
                    )
            write(out / NAME, plan)
        return plan
