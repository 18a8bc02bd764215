"""One run of a sweep as a job of Hydra, so that its launchers spread the runs: `scripts/glue.sh` starts the multirun.

A run that fails says why in its folder, and its job ends well, so that the others go on. Each run is a process of its
own, `scripts/finetune_glue.sh`, since fairseq leaves state behind in the process it trains in.
"""

from __future__ import annotations

import inspect
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO

import hydra
from omegaconf import DictConfig

from tupe.files import lock, write
from tupe.finetuning.gpus import one_gpu
from tupe.finetuning.plan import Plan
from tupe.finetuning.runs import FAILED, LOG, Failure, Run, clear, result
from tupe.finetuning.settings import ROOT

PARENT = "TUPE_SWEEP"  # in the environment of a multirun: the process that it ends with

_OVERRIDES = (
    "checkpoint.no_save_optimizer_state=true",  # nothing is resumed: what was interrupted is done anew
    "checkpoint.no_last_checkpoints=true",
    "common.log_format=json",  # where the metrics of MNLI-mm are read from
)
_ERROR = re.compile(r"(?:[\w.]*(?:Error|Exception)|error): ")
_HYDRA = "Error executing job with overrides: "  # what Hydra writes before the sentence or the traceback
_ADVICE = "Set the environment variable HYDRA_FULL_ERROR"
_ASIDE = (_ADVICE, "    full_key: ", "    reference_type=", "    object_type=")  # what Hydra writes after it


def perform(out: Path, run: Run) -> None:
    """Does a run of the sweep in `out`, unless it is finished or another process is doing it.

    Leaves `result.json` in the run's folder, or `failed.json` with the reason.
    """
    folder = out / run.folder
    with lock(folder.with_name(f".{folder.name}.lock")) as mine:
        if mine is None or result(folder) is not None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        clear(folder)
        with one_gpu() as environment:
            code = _fine_tune(Plan.load(out), run, folder, environment, mine)
        if code or result(folder) is None:
            write(folder / FAILED, Failure(reason(folder / LOG, code)))
            for checkpoint in folder.glob("checkpoint*.pt"):
                checkpoint.unlink()
        else:
            keep_best(out / run.task)


def _fine_tune(plan: Plan, run: Run, folder: Path, environment: dict[str, str], held: IO) -> int:
    command = ["bash", str(ROOT / "scripts/finetune_glue.sh"), run.task, plan.checkpoint, plan.data]
    command += [f"optimization.lr=[{run.lr!r}]", f"common.seed={run.seed}", f"checkpoint.save_dir={folder}"]
    command += [*_OVERRIDES, *plan.overrides]
    with (folder / LOG).open("wb") as log:  # in the process group of this job: a signal to it ends both
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, pass_fds=[held.fileno()], check=False,
        )  # fmt: skip
    return done.returncode


def reason(log: Path, code: int) -> str:
    """Why a run failed: the sentence or the exception at the end of its log, or how it ended and its last line."""
    text = log.read_text(encoding="utf-8", errors="replace")
    _, by_hydra, end = text.rpartition(_HYDRA)
    lines = end.splitlines()[1:] if by_hydra else text.splitlines()
    lines = [line.strip()[:500] for line in lines if line.strip() and not line.startswith(_ASIDE)]
    if by_hydra and lines and not lines[0].startswith("Traceback"):
        return lines[0]
    errors = [line for line in lines if _ERROR.match(line)]
    if errors:
        return errors[-1].removeprefix("error: ")
    ended = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return f"{ended}: {lines[-1]}" if lines else ended


def keep_best(task: Path) -> None:
    """Of the finished runs of a task, whose folders are in `task`, keeps the checkpoint of the best alone."""
    with lock(task / ".best.lock", wait=True):
        scores = {path: result(path.parent) for path in task.glob("lr_*/seed_*/checkpoint_best.pt")}
        scores = {path: content.score for path, content in scores.items() if content}
        for path in sorted(scores, key=scores.__getitem__)[:-1]:
            path.unlink()


# As fairseq's own commands; Hydra 1.0, which official fairseq brings, has no version_base.
_VERSION = {"version_base": "1.1"} if "version_base" in inspect.signature(hydra.main).parameters else {}


@hydra.main(config_path=None, config_name="sweep", **_VERSION)
def main(cfg: DictConfig) -> None:
    """The job: `configs/finetuning/sweep.yaml` says what it gets."""
    perform(Path(cfg.out), Run(cfg.run.task, float(cfg.run.lr), int(cfg.run.seed)))


def end_with(parent: int) -> None:
    """Ends all processes of the multirun, which are this one's group, when the sweep that started it has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(0, signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    if PARENT in os.environ:
        end_with(int(os.environ.pop(PARENT)))
    main()
