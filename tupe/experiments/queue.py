"""Do many runs, several at a time, with a progress bar.

`tupe sweep` is a queue. A run is a generator of the processes that it needs, one after another. It
claims its folder (`tupe.util.lock`) in its first step, and yields nothing if another process has the lock.
"""

import math
import signal
import sys
import time
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from tqdm import tqdm

from tupe.experiments.process import Process, python_command
from tupe.util import UserError

T = TypeVar("T")
#: Each process has ended when the generator goes on; on an interruption it has ended when the generator is closed.
Steps = Generator[Process, None, T]
_POLL = 0.5


class Progress(NamedTuple):
    runs: int  # those that are done
    size: int  # what the bar counts


def do_runs(
    ready: Callable[[Collection[Hashable]], Iterator[tuple[Hashable, Steps[None]]]],
    progress: Callable[[Collection[Hashable]], Progress],
    total: Progress,
    jobs: int,
    minutes: float = math.inf,
) -> None:
    """Do runs, `jobs` at a time, until none is ready or `minutes` are over.

    At the end, the processes that still run are told once to save, and waited for.

    Args:
        ready: yields the runs that can begin beside those that are active, with their steps.
        progress: returns the progress of the queue, given the active runs; called twice a second.
        total: the progress at the end.

    Raises:
        UserError: on Ctrl-C and SIGTERM.
    """
    active: dict[Hashable, tuple[Steps[None], Process]] = {}
    end = time.monotonic() + 60 * minutes
    layout = "{desc} |{bar}| {percentage:3.0f}% [{elapsed} gone, {remaining} left]"
    bar = tqdm(total=total.size, initial=progress(()).size, bar_format=layout, smoothing=0)

    def go_on(run: Hashable, steps: Steps[None]) -> None:
        active.pop(run, None)
        process = next(steps, None)
        if process is not None:
            active[run] = steps, process

    def show() -> None:
        done = progress(active)
        before = bar.desc, 100 * bar.n // max(total.size, 1)
        bar.n = max(done.size, bar.initial)
        names = "; ".join(map(str, active))
        bar.set_description_str(f"{done.runs} of {total.runs} runs{names and f': {names}'}", refresh=False)
        # A file gets a line for each change of these, not two a second.
        if sys.stderr.isatty() or before != (bar.desc, 100 * bar.n // max(total.size, 1)):
            bar.refresh()

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    interrupted = False
    try:
        while time.monotonic() < end:
            for run, (steps, process) in list(active.items()):
                if process.ended():
                    go_on(run, steps)
            waiting = ready(active)
            while len(active) < jobs and (found := next(waiting, None)):
                go_on(*found)
            show()
            if not active:
                break
            time.sleep(_POLL)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        try:
            _end(process for _, process in active.values())
        except KeyboardInterrupt:
            if interrupted:  # a second one does not wait
                raise
            interrupted = True
            _end(process for _, process in active.values())
        for steps, _ in active.values():
            steps.close()
        bar.close()
    if interrupted:
        raise UserError(
            f"interrupted with {progress(()).runs} of {total.runs} runs done: the same command goes on from there."
        )


def _end(processes: Iterable[Process]) -> None:
    """Stop processes, each by one signal however often this is called, and wait until they have saved and ended."""
    processes = list(processes)
    for process in processes:
        process.stop()
    for process in processes:
        process.ended(wait=True)


def say_failed(run: object, why: str) -> None:
    """Print why a run failed, above the progress bar."""
    tqdm.write(f"failed: {run}: {why}", file=sys.stderr)


def run_program(program: str, arguments: Iterable[object], **start: Any) -> Steps[None]:
    """Run `tupe` or `fairseq-hydra-train`; `start` is for `Process`.

    Raises:
        SystemExit: if the program failed; its own output says why. `code` is its status, above 128 after a signal.
    """
    process = Process(python_command(program, *arguments), **start)
    yield process
    if process.code:
        raise SystemExit(process.code if process.code > 0 else 128 - process.code)


def finish(steps: Steps[T]) -> T:
    """Do one run in this process, and return what its generator returns.

    Raises:
        SystemExit: on Ctrl-C and SIGTERM, after its process has saved and ended.
    """
    try:
        while True:
            next(steps).finish()
    except StopIteration as end:
        return end.value
