"""Do one run of a sweep as a job of Hydra, whose launchers spread the runs: `tupe sweep` starts the multirun.

A run that fails says why in its folder, and its job ends well, so that the others go on. Each training is a process of
its own, because fairseq leaves state behind in the process it trains in.
"""

import os
import re
import signal
import threading
import time
import traceback
from pathlib import Path

import hydra
from omegaconf import DictConfig

from tupe.errors import UserError
from tupe.fairseq_patches import install
from tupe.files import lock, write
from tupe.finetuning.finetune import Failed, Start, finetune
from tupe.finetuning.gpus import one_gpu
from tupe.finetuning.plan import Plan
from tupe.finetuning.runs import FAILED, LOG, Failure, Run, clear, result

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
    """Do a run of the sweep in `out`, unless it is finished or another process is doing it.

    Leaves `result.json` in the run's folder, or `failed.json` with the reason.
    """
    folder = out / run.folder
    with lock(folder.with_name(f".{folder.name}.lock")) as mine:
        if mine is None or result(folder) is not None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        clear(folder)
        with one_gpu() as environment, (folder / LOG).open("wb") as log:
            code = _fine_tune(Plan.load(out), run, folder, Start(environment, log, (mine,)))
        if code or result(folder) is None:
            write(folder / FAILED, Failure(reason(folder / LOG, code)))
            for checkpoint in folder.glob("checkpoint*.pt"):
                checkpoint.unlink()
        else:
            keep_best(out / run.task)


def _fine_tune(plan: Plan, run: Run, folder: Path, start: Start) -> int:
    """Return the exit status; what went wrong is in the log."""
    keys = [f"optimization.lr=[{run.lr!r}]", f"common.seed={run.seed}", f"checkpoint.save_dir={folder}"]
    try:
        finetune(run.task, Path(plan.checkpoint), Path(plan.data), [*keys, *_OVERRIDES, *plan.overrides], start)
        return 0
    except Failed as failed:
        return failed.code
    except Exception as error:  # the others go on
        lines = f"error: {error}\n" if isinstance(error, UserError) else "".join(traceback.format_exception(error))
        start.log.write(lines.encode())
        return 1


def reason(log: Path, code: int) -> str:
    """Return why a run failed: the sentence or exception at the end of its log, or its exit status and last line."""
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
    """Keep only the best run's checkpoint among the finished runs in the folder `task`."""
    with lock(task / ".best.lock", wait=True):
        scores = {path: result(path.parent) for path in task.glob("lr_*/seed_*/checkpoint_best.pt")}
        scores = {path: content.score for path, content in scores.items() if content}
        for path in sorted(scores, key=scores.__getitem__)[:-1]:
            path.unlink()


@hydra.main(config_path=None, config_name="sweep", version_base="1.1")
def main(cfg: DictConfig) -> None:
    """Do the job; `configs/finetuning/sweep.yaml` says what it gets."""
    try:
        perform(Path(cfg.out), Run(cfg.run.task, float(cfg.run.lr), int(cfg.run.seed)))
    except SystemExit as stopped:  # a worker of joblib would catch it and wait for another job
        os._exit(stopped.code)


def end_with(parent: int) -> None:
    """End all processes of the multirun, which are this one's group, when the sweep that started it has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(0, signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    if PARENT in os.environ:
        end_with(int(os.environ.pop(PARENT)))
    install()
    main()
