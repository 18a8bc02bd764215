"""Runs a command that ends when the process that started it does, even by SIGKILL, where the system can (Linux).

    python -S tupe/finetuning/with_parent.py PID COMMAND ...      # PID: of the parent, which may be gone already

The kernel sends the signal, so the command needs to know nothing of it. It is a program of its own since code that runs
between fork and exec of a process with threads may wait for ever.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Becomes the command."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):
            sys.exit(128 + signal.SIGTERM)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
