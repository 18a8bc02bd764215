"""Do the runs of a study that have no record yet, several at a time. After a stop, the same command resumes."""

import math
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tupe.cores import cpu_environment
from tupe.data.glue.prepare import files_of
from tupe.data.glue.tasks import TASKS
from tupe.errors import UserError
from tupe.experiments.job import reason
from tupe.experiments.process import Process
from tupe.experiments.queue import Progress, Steps, do_runs, finish, run_program, say_failed
from tupe.experiments.runs import LOG
from tupe.experiments.study import finetuning, starting, training
from tupe.experiments.study.design import Design, Run
from tupe.experiments.study.records import MADE_BY, Record, best_rate, check_settings, read_record, read_records
from tupe.files import lock, read, write

_BEGUN = "begun.json"
_TRAININGS = ("search", "final", "short")
#: Why a run cannot be done here.
ELSEWHERE = "checkpoint of the pre-training elsewhere"


@dataclass(frozen=True)
class Begun:
    """Record of an interrupted run: its settings, and the processor seconds that it has taken."""

    settings: dict[str, Any]
    seconds: float


class Study:
    """The runs of a design, those that are done and those that are wanted.

    The folders `records` and `out`, for corpora, checkpoints and logs, are those of all studies. All parts and systems
    are wanted by default. `again` trains once more what left its checkpoint elsewhere and a wanted run begins with; the
    record of the first time stays.

    Raises:
        UserError: for a system that the design lacks, and a file in place of a folder.
    """

    def __init__(
        self,
        design: Design,
        records: Path,
        out: Path,
        parts: Collection[str] = (),
        systems: Collection[str] = (),
        again: bool = False,
    ) -> None:
        unknown = [name for name in systems if name not in design.systems]
        if unknown:
            raise UserError(f"there is no system {unknown[0]} in the study: it has {', '.join(design.systems)}.")
        file = next((folder for folder in (records, out) if folder.exists() and not folder.is_dir()), None)
        if file is not None:
            raise UserError(f"{file} is not a folder: give the name of a folder to write.")
        self.design = design
        self.records = records / design.name
        self.out = (out / design.name).resolve()
        self.corpus = self.out / "corpus"
        self.glue = self.out / "glue-data"
        self.done = read_records(self.records, design)
        self.failed: set[Run] = set()
        self.wanted = [
            run
            for run in design.runs()
            if (not parts or run.part in parts) and (not systems or run.system in systems or run.part == "cost")
        ]
        if not self.wanted:
            known = ", ".join(dict.fromkeys(run.part for run in design.runs())) or "none"
            raise UserError(f"the study {design.name} has no runs of these parts and systems: its parts are {known}.")
        lost = {run: [*self._lost(run)] if again and run not in self.done else [] for run in self.wanted}
        #: What is trained again, and with it all that is to be done, in this order.
        self.again = {one for first in lost.values() for one in first}
        self.runs = [*dict.fromkeys(one for run, first in lost.items() for one in (*first, run))]

    def prepare(self, texts: list[Path], glue: Path | None) -> None:
        """Prepare the corpus from `texts` and the tasks from a GLUE download, unless they exist.

        Raises:
            UserError: without texts and without a corpus, if the download lacks a task, or if the study has none.
            SystemExit: if a preparation failed; its own output says why.
        """
        tasks = () if glue is None else self.design.finetuning.tasks
        if glue is not None and not tasks:
            raise UserError(f"the study {self.design.name} fine-tunes nothing: leave out --glue.")
        for task in filter(TASKS.get, tasks):  # prepare-glue says what is none
            files_of(TASKS[task], glue)  # before the corpus, which takes long
        if texts:
            finish(run_program("tupe", ["prepare-corpus", self.corpus, *texts, *self.design.corpus]))
        elif not (self.corpus / "manifest.json").is_file():
            raise UserError(f"there is no corpus in {self.corpus}: give text files.")
        if glue is not None:
            finish(run_program("tupe", ["prepare-glue", glue, self.corpus, self.glue, *tasks]))

    def settings(self, run: Run) -> dict[str, Any] | None:
        """Return all that a run depends on; None until the runs before it have ended."""
        if run.part == "cost":
            return {"run": "cost", "arguments": list(self.design.cost)}
        source, start = self.design.pretraining(run), {}
        if source is not None:
            if source not in self.done:
                return None
            if run.part == "glue":
                return finetuning.sweep_settings(self.design, run, self.done[source].settings)
            start = starting.start_settings(self.design, run, self.done[source].settings)
        if run.part == "start":
            return {"run": str(run), **start}
        lr = run.lr if run.part == "search" else best_rate(self.design, run.system, self.done)
        if run.part == "short" and int(run.at) == 0:
            lr = 0.0  # the loss before any update
        return None if lr is None else {**training.settings(self.design, run, lr, self.corpus), **start}

    def check(self) -> None:
        """Raise `UserError` at the first record whose settings differ from those that its run would have here."""
        for run, record in self.done.items():
            of = self.settings(run)
            if of is not None:
                check_settings(self.records / run.path, record.settings, of)

    def do(self, jobs: int, minutes: float = math.inf) -> int:
        """Do the missing runs, `jobs` at a time, for `minutes`; return how many are still missing.

        Raises:
            UserError: on an interruption, and in the end if runs failed.
        """
        self.check()
        for run in self.done:  # a process that was killed left it
            self._remove_unless_needed(run)
        total = Progress(len(self.runs), sum(map(self._size, self.runs)))
        do_runs(self._ready, self._progress, total, jobs, minutes)
        if self.failed:
            raise UserError(f"{len(self.failed)} run(s) failed: the reasons are above, the logs in {self.out}.")
        return sum(run not in self.done for run in self.wanted)

    def _ready(self, active: Collection[Run]) -> Iterator[tuple[Run, Steps[None]]]:
        """Yield the runs that can start; a measurement of costs runs alone."""
        for run in self.runs:
            if any(other.part == "cost" for other in active):
                return
            if self._ended(run) or run in (*active, *self.failed) or (run.part == "cost" and active):
                continue
            if run.part == "glue" and not self.glue.is_dir():
                continue
            if self.design.before(run) and not self._initial(run):
                continue  # a record alone may have come from another machine
            of = self.settings(run)
            if of is not None:
                yield run, self._steps(run, of)

    def _steps(self, run: Run, of: dict[str, Any]) -> Steps[None]:
        """Do a run, unless another process is doing it or has done it."""
        folder = self.folder(run)
        if (folder / _BEGUN).is_file():
            check_settings(folder, read(folder / _BEGUN, Begun, MADE_BY).settings, of)
        with lock(folder.with_name(f".{folder.name}.lock")) as mine:
            there = read_record(self.records, run)
            if there is not None:
                check_settings(self.records / run.path, there.settings, of)
                self.done[run] = there
            if mine is None or self._ended(run):
                return
            if not (folder / _BEGUN).is_file():
                if run in self.again:  # of the first time may be left what would end it at once
                    shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True, exist_ok=True)
                write(folder / _BEGUN, Begun(of, 0.0))
            processes: list[Process] = []
            try:
                for command in self._commands(run, of, folder):
                    with (folder / LOG).open("ab") as log:
                        # a second thread gains little in models so small, and loses much beside other work
                        processes.append(Process(command, cpu_environment(1), log))
                    yield processes[-1]
                    if processes[-1].code:
                        break
            finally:  # also where it was interrupted
                # a process without a code was not waited for, as after a second Ctrl-C
                if processes and processes[-1].code is not None:
                    self._conclude(run, of, processes[0].seconds, processes[-1])

    def _trained(self, run: Run, at: str) -> Path | None:
        """Return the checkpoint of a pre-training at the `end` or at `mid`; None unless it ended on this machine.

        One that is trained again has the log of the first time beside what is not trained to its end.
        """
        folder = self.folder(run)
        log = training.log_of(folder)
        ended = log is not None and max(log.valid, default=0) >= self.design.updates
        return training.checkpoint(self.design, folder, at) if ended and not (folder / _BEGUN).is_file() else None

    def _initial(self, run: Run) -> Path | None:
        """Return the checkpoint that a run begins with; None from scratch, and if it was not made on this machine."""
        first = self.design.before(run)
        if first is None or first.part == "final":
            return first and self._trained(first, run.at or "end")
        path = self.folder(first) / starting.CHECKPOINT
        return path if first in self.done and path.is_file() else None

    def _ended(self, run: Run) -> bool:
        """Tell whether nothing of a run is left to do."""
        return run in self.done and (run not in self.again or self._made(run))

    def _made(self, run: Run) -> bool:
        """Tell whether the checkpoints of a pre-training or a warm start are on this machine, whole."""
        if run.part == "final":
            return all(self._trained(run, at) for at in (("end", "mid") if self.design.mid else ("end",)))
        folder = self.folder(run)
        return (folder / starting.CHECKPOINT).is_file() and not (folder / _BEGUN).is_file()

    def _lost(self, run: Run) -> Iterator[Run]:
        """Yield the finished runs that `run` begins with, and that left their checkpoints elsewhere, in order."""
        first = self.design.before(run)
        if first in self.done and not self._made(first):
            yield from self._lost(first)
            yield first

    def missing(self) -> dict[Run, str]:
        """Map each run without a record to why it cannot be done here, such as `ELSEWHERE`, or to an empty text."""
        return {run: self._hindrance(run) for run in self.wanted if run not in self.done}

    def _hindrance(self, run: Run) -> str:
        if self.design.before(run) in self.done:
            if not self._initial(run) and self.design.before(run) not in self.again:
                return ELSEWHERE  # the record of its checkpoint is here, and the checkpoint is not
            if run.part == "glue" and not self.glue.is_dir():
                return "tasks not prepared: give --glue"
        if run.part == "final" or (run.part == "short" and int(run.at) > 0):
            is_searched = all(search in self.done for search in self.design.searches(run.system))
            if is_searched and best_rate(self.design, run.system, self.done) is None:
                return "every rate of the search diverged"
        return ""

    def is_elsewhere(self, run: Run) -> bool:
        """Tell whether a finished pre-training left its checkpoint on another machine, or in another --out."""
        return run.part == "final" and run in self.done and not self._trained(run, "end")

    def folder(self, run: Run) -> Path:
        return self.out / run.path.with_suffix("")

    def _commands(self, run: Run, of: dict[str, Any], folder: Path) -> Iterator[list[str]]:
        """Yield the command of a run, and after a training that of its losses by length."""
        if run.part == "cost":
            yield finetuning.cost_command(self.design, folder)
        elif run.part == "glue":
            yield finetuning.sweep_command(self.design, self._initial(run), self.glue, folder / "sweep")
        elif run.part == "start":
            (folder / starting.CHECKPOINT).unlink(missing_ok=True)  # of one that was stopped before its record
            yield starting.start_command(self.design, run, self._initial(run), self.corpus, folder)
        else:
            gpu = torch.cuda.is_available()
            yield training.command(self.design, run, of["lr"], self.corpus, folder, gpu, self._initial(run))
            if training.is_measured(self.design, run) and self.design.masks and run not in self.again:
                (folder / training.LENGTHS).unlink(missing_ok=True)  # likewise: it is not written over
                yield training.length_command(self.design, run, of, self.corpus, folder)

    def _conclude(self, run: Run, of: dict[str, Any], spent: float, process: Process) -> None:
        """Write the record of a run that succeeded, else the seconds `spent`; `process` is its last."""
        folder = self.folder(run)
        if (folder / _BEGUN).is_file():
            spent += read(folder / _BEGUN, Begun, MADE_BY).seconds
        if run in self.again and not process.code:
            found = self.done[run]
            self._say_difference(run)
        else:
            found = self._record(run, of, process.code, spent)
        if found is None:
            write(folder / _BEGUN, Begun(of, spent))
            if not process.asked:
                self.failed.add(run)
                say_failed(run, reason(folder / LOG, process.code))
            return
        (folder / _BEGUN).unlink(missing_ok=True)  # first: beside a record it would say that it is trained again
        if found is not self.done.get(run):
            write(self.records / run.path, found)
            self.done[run] = found
        self._remove_unless_needed(run)
        for other in self.design.runs():
            if self.design.before(other) == run:  # begun with another checkpoint, if at all
                shutil.rmtree(self.folder(other), ignore_errors=True)

    def _remove_unless_needed(self, run: Run) -> None:
        """Remove the folder of a finished run if nothing begins with its checkpoint."""
        if run.part in ("search", "short"):
            shutil.rmtree(self.folder(run), ignore_errors=True)  # two processes may

    def _say_difference(self, run: Run) -> None:
        """Say where a pre-training done again ends with another loss, as on another processor."""
        log, record = training.log_of(self.folder(run)), self.done[run]
        if log and run.part == "final" and (loss := log.valid[max(log.valid)]["loss"]) != record.curve[-1][1]:
            tqdm.write(f"{run} ends with a loss of {loss}; its record, which stays, has {record.curve[-1][1]}")

    def _record(self, run: Run, of: dict[str, Any], code: int, spent: float) -> Record | None:
        folder = self.folder(run)
        diverged = code and run.part == "search" and training.DIVERGED.search(reason(folder / LOG, code))
        if code and not diverged:  # also where the last validation was logged: what was not saved cannot be used
            return None
        if run.part in _TRAININGS:
            return training.record(self.design, run, of, self.corpus, folder, spent, bool(diverged))
        if run.part == "start":
            return starting.start_record(of, folder)
        if run.part == "cost":
            return finetuning.cost_record(of, folder)
        return finetuning.sweep_record(of, folder / "sweep", spent)

    def _size(self, run: Run) -> int:
        """Return the weight of a run in the progress bar, in updates."""
        if run.part in _TRAININGS:
            return training.updates(self.design, run)
        return 1 if run.part == "start" else self.design.search.updates or self.design.updates

    def _progress(self, active: Collection[Run]) -> Progress:
        done = [run for run in self.runs if self._ended(run)]
        logs = [training.log_of(self.folder(run)) for run in active if run.part in _TRAININGS]
        return Progress(len(done), sum(map(self._size, done)) + sum(max(log.train) for log in logs if log))
