"""A queue does runs of several processes, so many at a time, and leaves none of them behind."""

import os
import signal
import sys
import threading
import time

import pytest

from tupe.experiments import queue
from tupe.experiments.process import Process
from tupe.experiments.queue import Progress, do_runs, finish
from tupe.util import UserError


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(queue, "_POLL", 0.01)


def python(code):
    return Process([sys.executable, "-S", "-c", code])


def do(runs, jobs=1, **more):
    """Do `runs`, name -> steps; return how many were going on whenever it looked."""
    seen, waiting = [], iter(runs.items())

    def progress(active):
        seen.append(len(active))
        return Progress(0, 0)

    do_runs(lambda active: waiting, progress, Progress(len(runs), 1), jobs, **more)
    return seen


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_of_several_processes(jobs):
    codes = []

    def steps(first, second):
        for code in (first, second):
            process = python(f"raise SystemExit({code})")
            yield process
            codes.append(process.code)

    def none():
        """As where another process has the run."""
        return
        yield

    seen = do({"a": steps(1, 2), "b": none(), "c": steps(3, 4), "d": steps(5, 6)}, jobs)
    assert sorted(codes) == [1, 2, 3, 4, 5, 6]
    assert max(seen) == jobs
    assert codes == sorted(codes) or jobs > 1


def test_the_others_are_stopped_and_concluded():
    """By an error of one, by an interruption, and where the time is over."""
    ended = []

    def long():
        process = python("import time; time.sleep(600)")
        try:
            yield process
        finally:
            ended.append(process.code)

    def wrong():
        yield python("")
        raise ValueError

    with pytest.raises(ValueError):
        do({"a": long(), "b": wrong(), "c": long()}, jobs=3)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(UserError, match=r"interrupted with 0 of 1 runs done: the same command goes on from there"):
        do({"a": long()})
    before = time.monotonic()
    do({"a": long()}, minutes=0.005)
    assert 0.3 <= time.monotonic() - before < 60
    assert ended == [-signal.SIGTERM] * 4


def test_one_run_here_returns_what_its_steps_return():
    def steps():
        process = python("raise SystemExit(3)")
        yield process
        return process.code

    assert finish(steps()) == 3


def test_an_interruption_of_the_last_wait():
    """The time is over and a run saves: it is not asked a second time, which would end it at once."""
    saves = "import signal, sys, time\nsignal.signal(15, lambda *_: (time.sleep(1), sys.exit(3)))\ntime.sleep(600)"
    ended = []

    def steps():
        process = python(saves)
        try:
            yield process
        finally:
            ended.append(process.code)

    threading.Timer(0.9, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(UserError, match="interrupted with 0 of 1 runs done"):
        do({"a": steps()}, minutes=0.01)
    assert ended == [3]
