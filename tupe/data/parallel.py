"""A function over many items on several processes: results in order, few items in memory."""

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextlib.contextmanager
def pool(workers: int) -> Iterator[Map]:
    """Yield a `map` over `workers` processes, in order, which reads few items ahead; one worker is this process."""
    if workers == 1:
        yield map
        return
    # fork: a process starts at once, and nothing that ran in this one is run again; Ctrl-C is for the parent
    ignore = (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), signal.signal, ignore) as executor:

        def ordered(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            waiting: deque = deque()
            for item in items:
                waiting.append(executor.submit(function, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        yield ordered


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Return the items in lists of `size`; the last may be shorter."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch
