"""The end of Python: fairseq's thread that makes batches aborts the process if it is in PyTorch at that time."""

import atexit
import sys
import threading

from fairseq.data.iterators import BackgroundConsumer

from tupe.fairseq_patches.patching import only_runs

_SECONDS = 10  # for a batch; longer, it is as in fairseq


def end_consumers() -> None:
    """Ends the threads after the batch that they are at: exit status 134 would hide that of the run."""
    for thread in threading.enumerate():
        if isinstance(thread, BackgroundConsumer):
            thread._max_len, queue = 0, thread._queue
            with queue.mutex:  # it may wait for room
                queue.maxsize = sys.maxsize
                queue.not_full.notify()
            thread.join(_SECONDS)


@only_runs
def when_python_ends() -> None:
    """For processes that train or validate."""
    atexit.register(end_consumers)
