"""A run as a process: it ends with this one, is asked once to stop, and says what it took."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tupe.finetuning import with_parent
from tupe.study.design import ROOT


class Process:
    """A command in a session of its own, so that Ctrl-C reaches it through this process alone.

    Args:
        command: the program and its arguments.
        environment: beside this process's.
        log: what it prints is added to this file.

    Attributes:
        code: how it ended, as `subprocess` has it; None while it runs.
        asked: whether it was told to stop.
        seconds: of processors that it took, with all that it started; known at its end.
    """

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.code: int | None = None
        self.seconds = 0.0
        self.asked = False
        command = [sys.executable, "-S", with_parent.__file__, str(os.getpid()), *command]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def ended(self, wait: bool = False) -> bool:
        """Whether it has ended; with `wait`, waits for that."""
        if self.code is None:
            pid, status, usage = os.wait4(self._process.pid, 0 if wait else os.WNOHANG)
            if pid:
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.seconds = usage.ru_utime + usage.ru_stime
        return self.code is not None

    def stop(self) -> None:
        """Asks it to save and end. A second signal would end it at once, so that there is one."""
        if not self.asked and not self.ended():
            self.asked = True
            os.kill(self._process.pid, signal.SIGTERM)  # `send_signal` would take the status that `ended` waits for
