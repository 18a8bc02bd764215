"""Runs a command in a process of its own, forked from this one, that is killed at a certain file it writes."""

import multiprocessing
import os
import signal

from tupe.cli.main import main


def run_killed(arguments, at, who):
    """Runs `tupe arguments` until its processes have put `at` files in their places, and kills at the next.

    Args:
        arguments: of the command.
        at: how many files.
        who: `all` processes, as a machine that goes down, or the `one` that was writing.

    Returns:
        The exit status; -9 if the command itself was killed.
    """
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setsid()
            count, replace = multiprocessing.Value("i", 0), os.replace

            def counted(source, destination):
                with count.get_lock():
                    count.value += 1
                    now = count.value
                if now == at + 1:
                    (os.killpg if who == "all" else os.kill)(0 if who == "all" else os.getpid(), signal.SIGKILL)
                replace(source, destination)

            os.replace = counted
            status = main([str(argument) for argument in arguments])
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
