"""A function over many items on several processes: results in order, few items in memory."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from tupe.errors import UserError

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


class WorkerKilled(UserError):
    """A process of a pool was killed: what the others have done stays good."""


@contextlib.contextmanager
def pool(workers: int) -> Iterator[Map]:
    """Yield a `map` over `workers` processes, in order, which reads few items ahead; one worker is this process."""
    if workers == 1:
        yield map
        return
    # fork: a process starts at once, and nothing that ran in this one is run again.
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _start, (os.getpid(),)) as executor:

        def ordered(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            waiting: deque = deque()
            for item in items:
                waiting.append(executor.submit(function, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        try:
            yield ordered
        except BrokenProcessPool:
            raise WorkerKilled("a process was killed, probably for want of memory: use fewer --workers.") from None
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Return the items in lists of `size`; the last may be shorter."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


def _start(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops the work

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
