"""Do the runs of a study that have no record yet, several at a time; stopped, the same command goes on."""

import contextlib
import math
import shutil
import signal
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from tupe.cores import available_cores, cpu_environment
from tupe.errors import UserError
from tupe.files import lock, read, write
from tupe.finetuning.job import reason
from tupe.finetuning.process import Process, python_command
from tupe.finetuning.runs import LOG
from tupe.study import finetuning, training
from tupe.study.design import Design, Run
from tupe.study.records import MADE_BY, Record, best_rate, check_settings, read_record, read_records

_BEGUN = "begun.json"
_POLL = 0.5


@dataclass(frozen=True)
class Begun:
    """Contents of the folder of an interrupted run: its settings, and the processor seconds that it took."""

    settings: dict[str, Any]
    seconds: float


class _Active(NamedTuple):
    process: Process
    held: contextlib.ExitStack
    of: dict[str, Any]


class Study:
    """A design, the folder of all studies' records, and the folder of their corpora, checkpoints and logs.

    Only runs of `parts` and of `systems` are wanted, or all if these are empty.

    Raises:
        UserError: for a system that the design has not, and a file in place of a folder.
    """

    def __init__(
        self, design: Design, records: Path, out: Path, parts: Collection[str] = (), systems: Collection[str] = ()
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
        self.wanted = [
            run
            for run in design.runs()
            if (not parts or run.part in parts) and (not systems or run.system in systems or run.part == "cost")
        ]

    def prepare(self, texts: list[Path], glue: Path | None) -> None:
        """Prepare the corpus of `texts` and the tasks of a GLUE download; what is there already is kept.

        Raises:
            UserError: without texts and without a corpus.
            SystemExit: if a preparation failed, which it has said.
        """
        if texts:
            _run("prepare-corpus", self.corpus, *texts, *self.design.corpus)
        elif not (self.corpus / "manifest.json").is_file():
            raise UserError(f"there is no corpus in {self.corpus}: give text files.")
        if glue is not None:
            _run("prepare-glue", glue, self.corpus, self.glue, *self.design.finetuning.tasks)

    def settings(self, run: Run, records: dict[Run, Record]) -> dict[str, Any] | None:
        """Return all that a run depends on; None as long as one that comes before it has not ended."""
        if run.part == "cost":
            return finetuning.cost_settings(self.design)
        if run.part == "glue":
            pretrained = records.get(pretraining_of(run))
            return None if pretrained is None else finetuning.sweep_settings(self.design, run, pretrained.settings)
        lr = run.lr if run.part == "search" else best_rate(self.design, run.system, records)
        return None if lr is None else training.settings(self.design, run, lr, self.corpus)

    def check(self) -> dict[Run, Record]:
        """Return the records that there are.

        Raises:
            UserError: at the first that is damaged, or of other settings than its run would have here.
        """
        records = read_records(self.records, self.design)
        for run, record in records.items():
            of = self.settings(run, records)
            if of is not None:
                check_settings(self.records / run.path, record.settings, of)
        return records

    def do(self, jobs: int, minutes: float = math.inf) -> int:
        """Do the missing runs, `jobs` at a time, for `minutes`; return how many are missing after that.

        Raises:
            UserError: on an interruption, and in the end if runs failed.
        """
        records, end = self.check(), time.monotonic() + 60 * minutes
        failed: dict[Run, str] = {}
        active: dict[Run, _Active] = {}
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
        layout = "{desc} |{bar}| {percentage:3.0f}% [{elapsed} gone, {remaining} left]"
        with tqdm(total=sum(map(self._size, self.wanted)), bar_format=layout, smoothing=0) as bar:
            bar.initial = sum(self._size(run) for run in self.wanted if run in records)
            try:
                while True:
                    for run in [run for run, one in active.items() if one.process.ended()]:
                        self._conclude(run, active.pop(run), records, failed)
                        if run in failed:
                            bar.write(f"failed: {run}: {failed[run]}", file=sys.stderr)
                    if time.monotonic() < end:
                        self._start_more(jobs, active, records, failed)
                    else:
                        self._stop(active)
                    self._show(bar, active, records)
                    if not active:
                        break
                    time.sleep(_POLL)
            except BaseException as error:
                self._stop(active)
                for run, one in active.items():
                    one.process.ended(wait=True)
                    self._conclude(run, one, records, failed)
                if not isinstance(error, KeyboardInterrupt):
                    raise
                done = sum(run in records for run in self.wanted)
                raise UserError(
                    f"interrupted with {done} of {len(self.wanted)} runs done: the same command goes on from there."
                ) from None
        if failed:
            raise UserError(f"{len(failed)} run(s) failed: the reasons are above, the logs in {self.out}.")
        return sum(run not in records for run in self.wanted)

    def _start_more(
        self, jobs: int, active: dict[Run, _Active], records: dict[Run, Record], failed: dict[Run, str]
    ) -> None:
        """Start what can be started, each with its share of the cores; costs are measured alone."""
        for run in self.wanted:
            if len(active) >= jobs or any(other.part == "cost" for other in active):
                return
            if run in (*records, *active, *failed) or (run.part == "cost" and active):
                continue
            if run.part == "glue" and not (self.glue.is_dir() and self._pretrained(run)):
                continue  # a record alone may have come from another machine
            of = self.settings(run, records)
            if of is None:
                continue
            folder, held = self.folder(run), contextlib.ExitStack()
            if (folder / _BEGUN).is_file():
                check_settings(folder, read(folder / _BEGUN, Begun, MADE_BY).settings, of)
            mine = held.enter_context(lock(folder.with_name(f".{folder.name}.lock")))
            there = read_record(self.records, run)
            if there is not None:  # another process has done it
                check_settings(self.records / run.path, there.settings, of)
                records[run] = there
            if mine is None or there is not None:  # or is doing it
                held.close()
                continue
            folder.mkdir(parents=True, exist_ok=True)
            environment = cpu_environment(max(1, available_cores() // jobs))
            with (folder / LOG).open("ab") as log:
                process = Process(self._command(run, of, folder), environment, log)
            active[run] = _Active(process, held, of)

    def _pretrained(self, run: Run) -> Path | None:
        """Return the checkpoint that a sweep fine-tunes; None unless its pre-training ended on this machine."""
        folder = self.folder(pretraining_of(run))
        log = training.log_of(folder)
        ended = log is not None and max(log.valid, default=0) >= self.design.updates
        return training.checkpoint(self.design, folder, run.at) if ended else None

    def without_checkpoint(self, records: dict[Run, Record]) -> list[Run]:
        """Return the missing fine-tunings whose pre-training ended on another machine."""
        missing = [run for run in self.wanted if run.part == "glue" and run not in records]
        return [run for run in missing if pretraining_of(run) in records and not self._pretrained(run)]

    def folder(self, run: Run) -> Path:
        """Return the folder that a run works in."""
        return self.out / run.path.with_suffix("")

    def _command(self, run: Run, of: dict[str, Any], folder: Path) -> list[str]:
        if run.part == "cost":
            return finetuning.cost_command(self.design, folder)
        if run.part == "glue":
            return finetuning.sweep_command(self.design, self._pretrained(run), self.glue, folder / "sweep")
        return training.command(self.design, run, of["lr"], self.corpus, folder, torch.cuda.is_available())

    def _conclude(self, run: Run, one: _Active, records: dict[Run, Record], failed: dict[Run, str]) -> None:
        """Write the record of a run that has ended well; otherwise the time that it took until now."""
        folder = self.folder(run)
        spent = one.process.seconds
        if (folder / _BEGUN).is_file():
            spent += read(folder / _BEGUN, Begun, MADE_BY).seconds
        try:
            found = self._record(run, one, folder, spent)
            if found is not None:
                write(self.records / run.path, found)
                records[run] = found
                if run.part == "search":
                    shutil.rmtree(folder)
                for at in ("end", "mid") if run.part == "final" else ():  # begun with another checkpoint, if at all
                    shutil.rmtree(self.folder(Run("glue", run.system, run.seed, at=at)), ignore_errors=True)
                return
            write(folder / _BEGUN, Begun(one.of, spent))
            if not one.process.asked:
                failed[run] = reason(folder / LOG, one.process.code)
        finally:
            one.held.close()

    def _record(self, run: Run, one: _Active, folder: Path, spent: float) -> Record | None:
        code = one.process.code
        diverged = code and run.part == "search" and training.DIVERGED.search(reason(folder / LOG, code))
        if code and not diverged:  # also where the last validation was logged: what was not saved cannot be used
            return None
        if run.part in ("search", "final"):
            return training.record(self.design, run, one.of, self.corpus, folder, spent, bool(diverged))
        if run.part == "cost":
            return finetuning.cost_record(one.of, folder)
        return finetuning.sweep_record(one.of, folder / "sweep", spent)

    @staticmethod
    def _stop(active: dict[Run, _Active]) -> None:
        for one in active.values():
            one.process.stop()

    def _size(self, run: Run) -> int:
        """Return how many updates a run counts in the bar."""
        return training.updates(self.design, run) if run.part in ("search", "final") else self.design.search.updates

    def _show(self, bar: tqdm, active: dict[Run, _Active], records: dict[Run, Record]) -> None:
        done = [run for run in self.wanted if run in records]
        now = sum(map(self._size, done))
        for run in active:
            log = training.log_of(self.folder(run)) if run.part in ("search", "final") else None
            now += max(log.train) if log else 0
        before = bar.n, bar.desc
        bar.n = max(now, bar.initial)
        names = ", ".join(map(str, active)) or "nothing to do"
        bar.set_description_str(f"{len(done)} of {len(self.wanted)} runs; {names}", refresh=False)
        if sys.stderr.isatty() or bar.desc != before[1]:  # a file gets a line for each change, not two a second
            bar.refresh()


def _run(command: str, *arguments: object) -> None:
    """Run a command of `tupe`. Raises `SystemExit` if it fails, which it has said."""
    code = Process(python_command("tupe", command, *arguments)).finish()
    if code:
        raise SystemExit(code if code > 0 else 128 - code)


def pretraining_of(run: Run) -> Run:
    """Return the pre-training whose checkpoint a sweep fine-tunes."""
    return Run("final", run.system, run.seed)
