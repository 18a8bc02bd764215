"""Read and write `sweep.json`: the inputs of a sweep, and the runs that it has when it is complete."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tupe.experiments.runs import Run
from tupe.util import UserError, lock, read_json, write_json

NAME = "sweep.json"


@dataclass(frozen=True)
class Plan:
    """A sweep of one checkpoint."""

    checkpoint: str
    sha256: str  # of that file
    model: str  # its model's name, with the fields that were given
    updates: int  # how many updates it was pre-trained for
    data: str  # folder of the prepared GLUE tasks
    overrides: tuple[str, ...]  # of the fine-tuning configuration, beyond learning rate and seed
    runs: tuple[Run, ...]
    data_sha256: dict[str, str]  # of each task's data

    @classmethod
    def load(cls, out: Path) -> "Plan":
        """Read the plan of the sweep in `out`."""
        content = read_json(out / NAME)
        runs = tuple(Run(**run) for run in content["runs"])
        return cls(**{**content, "overrides": tuple(content["overrides"]), "runs": runs})

    def join(self, out: Path) -> "Plan":
        """Add the runs to those of the sweep in `out`, and return its plan.

        Raises:
            UserError: if that sweep is of another checkpoint, of other data or with other settings.
        """
        plan = self
        with lock(out / ".lock", wait=True):
            if (out / NAME).is_file():
                before = Plan.load(out)
                same = all(before.data_sha256.get(task, found) == found for task, found in self.data_sha256.items())
                if not same or (before.sha256, before.overrides) != (self.sha256, self.overrides):
                    raise UserError(f"{out} is a sweep of another checkpoint, data or settings. Choose another folder.")
                runs = tuple(dict.fromkeys((*before.runs, *self.runs)))
                plan = replace(self, runs=runs, data_sha256={**before.data_sha256, **self.data_sha256})
            write_json(out / NAME, asdict(plan))
        return plan
