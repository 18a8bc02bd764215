"""Pre-train and fine-tune the systems of a study on one budget: do the runs that have no record yet.

Every run leaves a small file below --records; `python -m lab.report` makes tables of these files. After a stop, the
same command resumes.
Example: bash scripts/study.sh wiki.txt.xz --glue glue_data --jobs 2
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from lab.design import PARTS, ROBERTA, Design, Run, read_design
from lab.records import Record, best_rate, read_records, this_machine, write_record
from lab.report import add_size
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import TrainingLog, read_log
from tupe.analysis.heads import head_patterns
from tupe.analysis.length import longest_input, loss_by_length, loss_by_position
from tupe.analysis.position import has_correlation, position_correlation
from tupe.finetune.runs import quoted
from tupe.finetune.table import read_sweep
from tupe.systems import SIZES
from tupe.util import UserError, available_cores, config_dir, read_json, run_folder, set_cpu_env, user_dir, write_json

_TUPE = (sys.executable, "-m", "tupe")
_BENCHMARK = Path(__file__).parent / "benchmarks/model.py"
_TRAININGS = ("search", "final", "short")
_SEARCH_VALIDATIONS = 4
#: Keys of a configuration that do not change a result.
_ASIDE = ("hydra", "defaults", "checkpoint", "common.user_dir", "common.log_format", "common.log_interval")
_ASIDE += ("task.data", "dataset.num_workers")
_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_SECONDS = re.compile(r"^CPU time: ([\d.]+) s", re.MULTILINE)
#: Messages of a run whose loss was not finite, by `tupe` and by fairseq.
_DIVERGED = re.compile(r"NaN or infinite|Nan/Inf|Minimum loss scale")
#: Files in a run's folder: its output, the mark of its end, and the time of its interrupted starts.
_LOG, _ENDED, _SPENT = "log", "ended", "processor_seconds.json"


def updates(design: Design, run: Run) -> int:
    """Return the number of updates of a pre-training.

    The search of a row with short runs is as long as the longest of them. A short run of 0 updates makes one update at
    a learning rate of 0.
    """
    if run.part == "short":
        return max(1, int(run.at))
    if run.part == "search":
        return (design.short[-1] if run.system in design.started else 0) or design.search.updates
    return design.updates


def overrides(design: Design, run: Run, lr: float) -> dict[str, Any]:
    """Return the changes that a run makes to the design's configuration: key -> value."""
    length, validations = updates(design, run), design.validations if run.part == "final" else _SEARCH_VALIDATIONS
    every = max(1, length // validations)
    system, model = design.systems[run.system], design.model(run.system)
    found = {
        "model._name": f"{model}_{design.model_size}",
        **design.settings,
        **system.settings,
        "common.seed": run.seed,
        "optimization.lr": [lr],
        "optimization.max_update": length,
        "dataset.validate_interval_updates": every,
        "checkpoint.save_interval_updates": every,
        "common.log_interval": max(1, min(100, every // 4)),  # the record is read from the log, also of a short run
    }
    if run.part == "final" and design.mid:
        found["checkpoint.keep_interval_updates_pattern"] = design.mid
    if model == ROBERTA:
        fields = {f"model.{name}": value for name, value in SIZES[design.model_size].items()}
        found |= {"model._name": ROBERTA, "criterion._name": "masked_lm", **fields}
    return {key.lstrip("+"): value for key, value in found.items()}


def pretraining_settings(design: Design, run: Run, lr: float, corpus: Path) -> dict[str, Any]:
    """Return everything that the result of a pre-training depends on."""
    cfg = OmegaConf.load(config_dir("pretraining") / f"{design.config}.yaml")
    for key, value in overrides(design, run, lr).items():
        OmegaConf.update(cfg, key, value, merge=False, force_add=True)
    settings = OmegaConf.to_container(cfg)
    for group, _, name in (key.partition(".") for key in _ASIDE):
        (settings.get(group, {}) if name else settings).pop(name or group, None)
    checksums = read_json(corpus / "manifest.json")["checksums"]
    data = {name: checksums[name] for name in ("dict.txt", "train.bin", "valid.bin")}
    return {"run": str(run), "lr": lr, "updates": updates(design, run), "data": data, "pretraining": settings}


def pretraining_command(
    design: Design, run: Run, lr: float, corpus: Path, folder: Path, start: Path | None = None
) -> list[str]:
    """Return fairseq's command. `start` is a checkpoint with the initial weights."""
    given = {"common.user_dir": user_dir(), "task.data": corpus, "checkpoint.save_dir": folder}
    given |= {"distributed_training.distributed_world_size": 1}
    given |= {} if start is None else {"checkpoint.finetune_from_model": start}
    given |= {} if torch.cuda.is_available() else {"common.cpu": True, "common.bf16": False}
    given |= overrides(design, run, lr)
    # Hydra's `++` changes a key or adds it
    keys = [f"++{key}={quoted(value) if isinstance(value, (str, Path)) else value}" for key, value in given.items()]
    options = ("--config-dir", str(config_dir("pretraining")), "--config-name", design.config)
    return ["fairseq-hydra-train", *options, *keys]


def measure(design: Design, run: Run, corpus: Path, folder: Path) -> dict[str, Any]:
    """Measure the loss by position at the lengths that the model allows, the loss by length, and head patterns."""
    if run.part != "final" or design.model(run.system) == ROBERTA:
        return {}
    checkpoint = folder / "checkpoint_last.pt"
    encoder = open_encoder(checkpoint)
    by_position, by_length, patterns = {}, {}, Counter()
    if has_correlation(encoder.args):  # before `loss_by_position` makes the encoder longer
        found = position_correlation(encoder)
        patterns.update(head_patterns(found.values, found.reset))
    encoder.to("cuda" if torch.cuda.is_available() else "cpu")
    for length in (length for length in design.lengths if length <= longest_input(encoder)):
        bits, masked = loss_by_position(encoder, corpus, length)
        by_position[str(length)] = [round(loss, 4) if count else None for loss, count in zip(bits / masked, masked)]
    if design.masks:
        window = design.systems[run.system].window
        losses = loss_by_length(checkpoint, corpus, design.lengths, window=window, masks=design.masks)
        by_length = {name: {str(n): loss._asdict() for n, loss in of.items()} for name, of in losses.items()}
    return {"loss_by_position": by_position, "loss_by_length": by_length, "heads": dict(patterns)}


class Study:
    """The runs of a design, those that are done and those that are wanted.

    The folders `records` and `out`, for corpora, checkpoints and logs, are those of all studies. All parts and systems
    are wanted by default.
    """

    def __init__(
        self,
        design: Design,
        records: Path,
        out: Path,
        parts: Collection[str] = PARTS,
        systems: Collection[str] = (),
    ) -> None:
        self.design = design
        self.records = records / design.name
        self.out = (out / design.name).resolve()
        self.corpus, self.glue = self.out / "corpus", self.out / "glue-data"
        self.done = read_records(self.records, design)
        self.failed: set[Run] = set()
        self.wanted = [
            run
            for run in design.runs()
            if run.part in parts and (not systems or run.system in systems or run.part == "cost")
        ]
        self._processes: set[subprocess.Popen] = set()
        self._stopping = False

    def prepare(self, texts: list[Path], glue: Path | None) -> None:
        """Prepare the corpus from `texts` and the tasks from a GLUE download, unless they are prepared."""
        if texts:
            subprocess.run([*_TUPE, "prepare-corpus", *texts, self.corpus, *self.design.corpus], check=True)
        if glue is not None:
            tasks = self.design.finetuning.tasks
            subprocess.run([*_TUPE, "prepare-glue", glue, self.corpus, *tasks, self.glue], check=True)

    def folder(self, run: Run) -> Path:
        return self.out / run.path.with_suffix("")

    def initial(self, run: Run) -> Path | None:
        """Return the checkpoint that a run starts from, or None if it needs none or the checkpoint is not here.

        A checkpoint counts only with `_ENDED`: the record may come from elsewhere, and a stopped run leaves one too.
        """
        first = self.design.before(run)
        if first is None or not (self.folder(first) / _ENDED).exists():
            return None
        name = f"checkpoint_*_{self.design.mid}.pt" if run.at == "mid" else "checkpoint_last.pt"
        return next(self.folder(first).glob("start.pt" if first.part == "start" else name), None)

    def lr(self, run: Run) -> float | None:
        """Return the learning rate of a pre-training; None before its search has ended."""
        if run.part == "short" and int(run.at) == 0:
            return 0.0  # the loss before any update
        return run.lr if run.part == "search" else best_rate(self.design, run.system, self.done)

    def settings(self, run: Run) -> dict[str, Any]:
        """Return all that a run depends on, for a run whose predecessors have ended."""
        design, first = self.design, self.design.before(run)
        if run.part == "cost":
            return {"run": "cost", "arguments": design.cost}
        if run.part == "glue":
            of = {"after": design.after(run.at), "sweep": asdict(design.finetuning), "of": self.done[first].settings}
            return {"run": str(run), **of}
        start = {}
        if first is not None:
            source = first if first.part == "final" else design.before(first)
            how = asdict(design.systems[run.system].start)
            how |= {"model": design.model(run.system), "fields": self._fields(run)}
            start = {"start": how, "of": self.done[source].settings}
        if run.part == "start":
            return {"run": str(run), **start}
        return {**pretraining_settings(design, run, self.lr(run), self.corpus), **start}

    def why_not_now(self, run: Run) -> str:
        """Return why a run cannot be done now, or an empty string if it can."""
        first = self.design.before(run)
        if first and first not in self.done:
            return f"waits for {first}"
        if first and not self.initial(run):
            return f"the checkpoint of {first} is not in {self.out}: copy it, or delete its record"
        if run.part == "glue" and not self.glue.is_dir():
            return "tasks not prepared: use --glue"
        if run.part in _TRAININGS and self.lr(run) is None:
            diverged = all(search in self.done for search in self.design.searches(run.system))
            return "every rate of the search diverged" if diverged else "waits for the search"
        return ""

    def check(self) -> None:
        """Raise `UserError` at the first record whose settings differ from those that its run would have here."""
        for run, record in [*self.done.items()]:  # threads add to it
            known = run.part not in _TRAININGS or self.lr(run) is not None
            source = self.design.before(run)
            if known and (source is None or source in self.done) and record.settings != self.settings(run):
                raise UserError(f"{self.records / run.path} has other settings. Set new --out and --records.")

    def do(self, jobs: int) -> None:
        """Do the remaining runs, `jobs` at a time. Ctrl-C and SIGTERM stop the processes, which save."""
        active: dict[Future, Run] = {}
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with ThreadPoolExecutor(jobs) as pool:
            try:
                while True:
                    self.check()  # again, because a search that ends decides a rate
                    for run in self.wanted:
                        ready = run not in {*self.failed, *active.values(), *self.done} and not self.why_not_now(run)
                        alone = "cost" in {run.part, *(other.part for other in active.values())}
                        if ready and len(active) < (1 if alone else jobs):
                            active[pool.submit(self.perform, run)] = run
                            print(f"begun: {run}, log: {self.folder(run) / _LOG}", file=sys.stderr, flush=True)
                    if not active:
                        break
                    for future in wait(active, return_when=FIRST_COMPLETED).done:
                        run, error = active.pop(future), future.exception()
                        if error is not None:
                            self.failed.add(run)
                        print(f"failed: {run}: {error}" if error else f"done: {run}", file=sys.stderr, flush=True)
            finally:
                self._stopping = True
                for process in list(self._processes):
                    process.terminate()

    def perform(self, run: Run) -> None:
        """Do a run in its folder, and write its record."""
        folder, settings = self.folder(run), self.settings(run)
        with run_folder(folder, settings) as held:
            (folder / _ENDED).unlink(missing_ok=True)
            spent = read_json(folder / _SPENT) if (folder / _SPENT).exists() else 0.0
            code, seconds, output = self._run(self.command(run, folder), folder / _LOG, held.fileno())
            spent += seconds
            write_json(folder / _SPENT, spent)
            diverged = bool(code) and run.part == "search" and bool(_DIVERGED.search(output))
            if code and (self._stopping or not diverged):
                raise RuntimeError(next(reversed(output.strip().splitlines()), f"exit status {code}"))
            record = self.record(run, settings, folder, spent, diverged, output)
            write_record(self.records, run, record)
            (folder / _ENDED).touch()
            self.done[run] = record
        if run.part in ("search", "short"):
            shutil.rmtree(folder)  # no run starts from its checkpoint
        for other in self.design.runs():
            if self.design.before(other) == run:  # if it has started, then from another checkpoint
                shutil.rmtree(self.folder(other), ignore_errors=True)

    def command(self, run: Run, folder: Path) -> list[str]:
        """Return the command of a run."""
        design, sweep = self.design, self.design.finetuning
        if run.part == "cost":
            command = [sys.executable, _BENCHMARK, *design.cost, "--output", folder]
        elif run.part == "glue":
            lists = {"--tasks": sweep.tasks, "--lrs": sweep.rates, "--seeds": sweep.seeds}
            options = [f"{name}={','.join(map(str, values))}" for name, values in lists.items()]
            paths = (self.initial(run), self.glue, folder / "sweep")
            command = [*_TUPE, "sweep", "glue", *options, *paths, *sweep.settings]
        elif run.part == "start":
            (folder / "start.pt").unlink(missing_ok=True)  # left by a conversion without a record
            how = ("--seed", run.seed, *("--data", self.corpus) * (design.systems[run.system].start.positions != "new"))
            fields = (design.model(run.system), *self._fields(run))
            command = [*_TUPE, "warm-start", self.initial(run), *fields, folder / "start.pt", *how]
        else:
            command = pretraining_command(design, run, self.lr(run), self.corpus, folder, self.initial(run))
        return [*map(str, command)]

    def _fields(self, run: Run) -> list[str]:
        """Return the fields of the model that the row's own settings change, as `FIELD=VALUE`."""
        settings = {key.lstrip("+"): value for key, value in self.design.systems[run.system].settings.items()}
        return [f"{key.removeprefix('model.')}={value}" for key, value in settings.items() if key.startswith("model.")]

    def _run(self, command: list[str], log: Path, held: int) -> tuple[int, float, str]:
        """Run a command under the lock `held`; return its exit status, processor seconds and output, also in `log`."""
        with log.open("a+b") as file:
            first = file.seek(0, os.SEEK_END)
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            process = subprocess.Popen(command, **streams, start_new_session=True, pass_fds=[held])
            self._processes.add(process)
            _, status, usage = os.wait4(process.pid, 0)
            self._processes.discard(process)
            process.returncode = os.waitstatus_to_exitcode(status)
            file.seek(first)
            output = file.read().decode(errors="replace")
        return process.returncode, usage.ru_utime + usage.ru_stime, output

    def record(
        self, run: Run, settings: dict[str, Any], folder: Path, spent: float, diverged: bool, output: str
    ) -> Record:
        """Return the record of a run that has ended; `output` is the output of its command."""
        about = {"settings": settings, **this_machine()}
        if run.part == "start":
            return Record(seconds=float(_SECONDS.findall(output)[-1]), **about)
        if run.part == "cost":
            found, times = read_json(folder / "model.json"), {}
            for record in found["records"]:
                times.setdefault(record["rival"], {})[record["mode"]] = record["time_over_first"]
            return Record(conditions=found["run"], times=times, **about)
        about |= {"processor_seconds": round(spent, 1)}
        if run.part == "glue":
            cells = read_sweep(folder / "sweep").cells.items()
            scores = {name: {f"{lr:g}": found for lr, found in cell.scores.items()} for name, cell in cells}
            return Record(scores=scores, **about)
        log = TrainingLog({}, {})
        with contextlib.suppress(UserError):  # a run may diverge before its first record
            log = read_log(folder)
        valid = sorted(log.valid.items())
        parameters = _PARAMETERS.search((folder / _LOG).read_text(errors="replace"))
        return Record(
            lr=self.lr(run),
            parameters=int(parameters[1].replace(",", "")) if parameters else 0,
            curve=[(update, values["loss"]) for update, values in valid],
            accuracy=valid[-1][1].get("accuracy") if valid else None,
            training_seconds=round(log.seconds, 1),
            diverged=diverged,
            **about,
            **measure(self.design, run, self.corpus, folder),
        )


def main() -> None:
    parser = argparse.ArgumentParser("scripts/study.sh", description=__doc__)
    add = parser.add_argument
    add("texts", nargs="*", type=Path, metavar="TEXT", help="texts of the corpus; none if it is prepared")
    add_size(parser)
    add("--out", type=Path, default=Path("runs/study"), help="corpus, checkpoints, logs (default: %(default)s)")
    add("--glue", type=Path, metavar="FOLDER", help="GLUE download; without it, nothing is fine-tuned")
    add("--jobs", type=int, metavar="N", help="runs at a time (default: the design's, or one per core)")
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    add("--systems", nargs="+", default=[], metavar="SYSTEM", help="default: all of the study")
    add("--list", action="store_true", help="list the runs that are done or missing, and do none")
    args = parser.parse_intermixed_args()
    design = read_design(args.size)
    study = Study(design, args.records, args.out, args.parts, args.systems)
    if not args.list:
        set_cpu_env(available_cores())  # one thread per run: a second one gains little in models this small
        study.prepare(args.texts, args.glue)
        study.do(args.jobs or design.jobs or available_cores())
    for run in study.wanted:
        why = "" if run in study.done else study.why_not_now(run)
        if args.list or why:
            print("done   " if run in study.done else "missing", f"{run}{why and f' ({why})'}")
    if study.failed:
        sys.exit(f"error: {len(study.failed)} run(s) failed: the logs are in {study.out}.")


if __name__ == "__main__":
    main()
