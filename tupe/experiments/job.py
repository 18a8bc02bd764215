"""Do one run of a sweep. As a program, this file does it for a launcher of Hydra.

A run that fails leaves the reason in its folder, and the others go on. Each training is a process of its own, because
fairseq leaves state behind in the process in which it trains.
"""

import contextlib
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception

import hydra
from omegaconf import DictConfig

from tupe.experiments.finetune import finetune
from tupe.experiments.plan import Plan
from tupe.experiments.queue import Steps, finish
from tupe.experiments.runs import FAILED, LOG, Run, clear, result
from tupe.util import UserError, lock, visible_gpus, write_json

_OVERRIDES = (
    "checkpoint.no_save_optimizer_state=true",  # an interrupted run does not resume, but starts again
    "checkpoint.no_last_checkpoints=true",
    "common.log_format=json",  # the metrics of MNLI-mm are read from the log
)
_ERROR = re.compile(r"(?:[\w.]*(?:Error|Exception)|error): ")
_HYDRA = "Error executing job with overrides: "  # Hydra writes this before the sentence or the traceback
_ADVICE = "Set the environment variable HYDRA_FULL_ERROR"
_ASIDE = (_ADVICE, "    full_key: ", "    reference_type=", "    object_type=")  # Hydra writes these after it


def perform(out: Path, run: Run) -> Steps[None]:
    """Do a run of the sweep in `out`, unless it is finished or another process is doing it.

    Leaves `result.json` in the run's folder, or `failed.json` with the reason.
    """
    folder = out / run.folder
    with contextlib.ExitStack() as held:
        if not _locked(held, folder.with_name(f".{folder.name}.lock")) or result(folder) is not None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        clear(folder)
        plan = Plan.load(out)
        keys = [*_OVERRIDES, *plan.overrides]
        keys += [f"optimization.lr=[{run.lr!r}]", f"common.seed={run.seed}", f"checkpoint.save_dir={folder}"]
        code = 0
        with one_gpu() as environment, (folder / LOG).open("wb") as log:
            try:
                given = (run.task, Path(plan.checkpoint), Path(plan.data), keys)
                yield from finetune(*given, environment=environment, log=log)
            except SystemExit as failed:
                code = failed.code
            except Exception as error:  # the other runs go on
                lines = f"error: {error}\n" if isinstance(error, UserError) else "".join(format_exception(error))
                log.write(lines.encode())
                code = 1
        if code or result(folder) is None:
            write_json(folder / FAILED, {"reason": reason(folder / LOG, code)})
            for checkpoint in folder.glob("checkpoint*.pt"):
                checkpoint.unlink()
        else:
            keep_best(out / run.task)


def _locked(held: contextlib.ExitStack, path: Path) -> bool:
    """Lock `path` until the end of `held`, unless another process holds the lock; tell whether it is locked."""
    try:
        held.enter_context(lock(path))
    except UserError:
        return False
    return True


@contextlib.contextmanager
def one_gpu() -> Iterator[dict[str, str]]:
    """Wait for a GPU that no other run has; yield the environment of a process that sees only this GPU.

    Where one or none is visible, as in a SLURM job, there is nothing to choose.
    """
    gpus = visible_gpus()
    if len(gpus) < 2:
        yield {}
        return
    folder = Path(tempfile.gettempdir(), f"tupe-gpus-{os.getuid()}")
    while True:
        for gpu in gpus:
            with contextlib.ExitStack() as held:
                if _locked(held, folder / f"{gpu}.lock"):
                    yield {"CUDA_VISIBLE_DEVICES": gpu}
                    return
        time.sleep(1)


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
    """Do the job that `cfg` describes (`configs/finetuning/sweep.yaml`)."""
    try:
        finish(perform(Path(cfg.out), Run(str(cfg.run.task), float(cfg.run.lr), int(cfg.run.seed))))
    except SystemExit as stopped:  # a worker of joblib would catch it and wait for another job
        os._exit(stopped.code)


def end_workers(number: int, _: object) -> None:
    """End all processes of the multirun, as the signal reaches only this one."""
    signal.signal(number, signal.SIG_DFL)
    os.killpg(0, number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end_workers)
    main()
