"""Map a function over many items in several processes, with results in order and few items in memory."""

import contextlib
import ctypes
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from typing import Any

from tupe.util import available_cores

_PDEATHSIG = 1  # Linux's option for the signal that a process gets when its parent ends

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextlib.contextmanager
def pool(workers: int = 0) -> Iterator[Map]:
    """Yield a `map` over `workers` processes, which keeps the order and reads few items ahead.

    0 workers means one process per core. 1 means this process.
    """
    workers = workers or available_cores()
    if workers == 1:
        yield map
        return
    # a fork starts at once, and imports nothing again
    with ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _begin) as executor:

        def ordered(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            waiting: deque = deque()
            for item in items:
                waiting.append(executor.submit(function, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        yield ordered


def _begin() -> None:
    """Leave Ctrl-C to the parent, and die with the parent, because a fork also holds the lock of the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(AttributeError):  # macOS has no such call
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Return the items in lists of `size`; the last may be shorter."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


def counted(counts: dict[str, int]) -> str:
    """Format counts as "2 pairs, 1 dropped"."""
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())
