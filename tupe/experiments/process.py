"""Run a program of this Python as a process that ends with this one, on Linux even if this one is killed.

    python -IS process.py SIGNAL PID COMMAND ...      # PID: of the parent, which may have ended already

The kernel sends the signal, so any command can be run. The file is a program of its own, because code between fork and
exec of a process with threads may wait for ever.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

_PR_SET_PDEATHSIG = 1
#: Options of Python that run a program, whatever PATH holds.
_PROGRAMS = {
    "tupe": ("-m", "tupe"),
    "fairseq-hydra-train": ("-P", "-m", "fairseq_cli.hydra_train"),
}

#: What a launcher such as torchrun tells each of several processes. fairseq would wait for the others, but a command
#: here is one process.
_OF_SEVERAL = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")


def python_command(program: str, *arguments: object) -> list[str]:
    """Return the command that runs `tupe` or `fairseq-hydra-train` by this Python."""
    return [sys.executable, *_PROGRAMS[program], *map(str, arguments)]


class Process:
    """A command in a session of its own, so that Ctrl-C reaches it through this process alone.

    Args:
        command: the program and its arguments.
        environment: added to this process's, without what a launcher says of several processes.
        log: file for what it prints; by default it prints where this process does.
        held: locked files that stay open, and so locked, as long as it runs.

    Attributes:
        pid: number of the process, and of its group.
        code: exit status, as `subprocess` has it; None while it runs.
        asked: whether it was told to stop.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        log: IO[bytes] | None = None,
        held: Sequence[IO] = (),
    ) -> None:
        self.code: int | None = None
        self.asked = False
        ours = {name: value for name, value in os.environ.items() if name not in _OF_SEVERAL}
        self._process = subprocess.Popen(
            [sys.executable, "-IS", __file__, "SIGTERM", str(os.getpid()), *command],
            env={"PYTHONWARNINGS": "ignore", **ours, **(environment or {})},  # fairseq and Hydra give some
            stdin=subprocess.DEVNULL, stdout=log, stderr=log and subprocess.STDOUT, start_new_session=True,
            pass_fds=[file.fileno() for file in held],
        )  # fmt: skip
        self.pid = self._process.pid

    def ended(self, wait: bool = False) -> bool:
        """Tell whether the process has ended; with `wait`, wait until it has."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            if pid:
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def stop(self) -> None:
        """Ask the process, once, to save and end: a second signal would end it at once."""
        if not self.asked and not self.ended():
            self.asked = True
            os.kill(self.pid, signal.SIGTERM)  # `send_signal` would take the status that `ended` waits for

    def finish(self) -> int:
        """Wait for the end of the process, and return its exit status.

        Raises:
            SystemExit: on Ctrl-C and SIGTERM, after it was stopped and has ended.
        """

        def stop(number: int, _: object) -> None:
            self.stop()
            raise SystemExit(128 + number)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self.ended(wait=True)
        finally:
            self.ended(wait=True)
            for number, handler in before.items():
                signal.signal(number, handler)
        return self.code


def main() -> None:
    """Replace this program by the command."""
    name, parent, *command = sys.argv[1:]
    number = signal.Signals[name]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != int(parent):
            sys.exit(128 + number)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
