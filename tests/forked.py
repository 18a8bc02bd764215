"""fairseq's commands and ours as processes forked from one that has imported fairseq, which anew takes seconds of each.

`programs()` is a folder for PATH. Each program in it asks that process for a fork of itself, with the same arguments,
environment, folder and files, hands on the signals that it gets, and ends as that does; if it is killed, so is that.
So the scripts, `torchrun` and the commands that start others start these, also by `sys.executable`. What differs from a
user's: Ctrl-C aside, a signal to the group of the program reaches the program alone, and the processor time that the
system counts for a program is not that of its fork.

    python -m tests.forked SOCKET                  # answers requests
    python -S forked.py SOCKET PROGRAM ARGUMENT... # makes one
"""

import array
import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "torchrun": ("torch.distributed.run", "main"),
    **{
        f"fairseq-{name}": (f"fairseq_cli.{name.replace('-', '_')}", "cli_main")
        for name in ("train", "hydra-train", "preprocess", "validate", "generate", "interactive")
    },
    # imported by the fork, as the plugin by fairseq: only when it is asked for
    "tupe": ("tupe.cli.main", "main"),
    "module": ("tests.forked", "run_module"),
}
#: One of each form that the trainings are given.
OVERRIDES = ["a.b=null", "+a.b=1", "++a.b='/c/d.e'", "~a", "a=b_c", "a.b=[1,1e-3]", "a={b:1.5}", "a=/b/c-d.e"]
#: Handed on; SIGINT to the whole group, as a terminal does.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
SECONDS = 600  # until a command that hangs is ended
#: `sys.executable` in the forks, whose `tupe` is that of this tree whatever PYTHONPATH says.
PYTHON_OF_FORKS = "python_of_forks"


@functools.cache
def programs():
    """The folder of the programs; the process that they ask, one for all tests of this one, ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="tupe-"))
    request = f"exec {shlex.quote(sys.executable)} -SE {shlex.quote(__file__)} {folder / 'socket'}"
    for name in COMMANDS:
        write(folder / name, f'{request} {name} "$@"')
    real = shlex.quote(sys.executable)
    root = shlex.quote(str(ROOT))
    ours = f'"-m tupe "{root} | "-m lab."*{root} | "-m tests."*'  # and not a clone's
    forks = f'case "$1 $2 ${{PYTHONPATH%%:*}}" in {ours}) shift; {request} module "$@" ;; esac'
    write(folder / "python3", f'{forks}\nexec {real} "$@"')
    of_forks = (
        f'case "$1 $2 $3" in "-P -m tupe."* | "-u -m tupe."*) shift 2; {request} module "$@" ;; '
        f'"-m torch.distributed.run "*) shift 2; {request} torchrun "$@" ;; '
        f'"-m tupe "* | "-m tupe."* | "-m lab."*) shift; {request} module "$@" ;; esac'
    )
    write(folder / PYTHON_OF_FORKS, f'{of_forks}\nexec {real} "$@"')
    command = [sys.executable, "-m", "tests.forked", folder / "socket"]
    # 1 may be pytest-xdist's own
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=2)
    atexit.register(end, process, os.getpid(), folder)
    return folder


def write(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def end(process, owner, folder):
    """Unless this is a fork of the tests' process, which leaves its server alone."""
    if os.getpid() == owner:
        process.communicate()
        shutil.rmtree(folder)


def ask(address, program, *arguments):
    """The program: asks for the fork, and becomes what comes out of it."""
    server = socket.socket(socket.AF_UNIX)
    for _ in range(SECONDS * 20):  # it is importing
        try:
            server.connect(address)
            break
        except OSError:
            time.sleep(0.05)
    ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
    request = {"command": [program, *arguments], "cwd": os.getcwd(), "env": dict(os.environ), "ignored": ignored}
    text = json.dumps(request).encode()
    files = array.array("i", (0, 1, 2))
    server.sendmsg([len(text).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    server.sendall(text)
    for number in {*SIGNALS} - {*ignored}:
        signal.signal(number, lambda number, _: server.sendall(bytes([number])))
    answer = server.recv(2)  # none if the server is gone
    code = int.from_bytes(answer, "big", signed=True) if answer else 1
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    sys.exit(code)


def serve(address):
    """Forks a keeper for every request, and returns in what that forks: the request, and its files."""
    for module in dict.fromkeys(
        module for module, _ in COMMANDS.values() if not module.startswith(("tupe.", "tests."))
    ):
        __import__(module)
    import torch._dynamo  # noqa: F401  or every training would: with its first optimizer PyTorch does, for a second
    from hydra.core.override_parser.overrides_parser import OverridesParser

    # or every training would: the parser of Hydra's grammar fills its tables as it meets new input
    OverridesParser.create().parse_overrides(OVERRIDES)

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(64)
    os.rename(f"{address}.new", address)
    keepers = set()
    gc.freeze()  # or to collect would touch, and so copy, what the forks share
    while listener in select.select([listener, sys.stdin], [], [])[0]:  # until the tests' process ends
        connection, _ = listener.accept()
        keepers = {keeper for keeper in keepers if os.waitpid(keeper, os.WNOHANG) == (0, 0)}
        keeper = os.fork()
        if not keeper:
            listener.close()
            return keep(connection)
        keepers.add(keeper)
        connection.close()
    sys.exit()


def keep(connection):
    """Keeps the command: forks it, hands signals on to it, and answers with its end."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += connection.recv(1 << 16)
    child = os.fork()
    if not child:
        connection.close()
        return json.loads(text), files
    threading.Thread(target=hand_on, args=(connection, child), daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # who asked was killed
        connection.sendall(code.to_bytes(2, "big", signed=True))
    os._exit(0)


def hand_on(connection, child):
    with contextlib.suppress(ConnectionResetError):
        while number := connection.recv(1):
            os.kill(0 if number[0] == signal.SIGINT else child, number[0])
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # who asked was killed


def run_module():
    """`python3 -m MODULE ARGUMENT...`"""
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def end_with(function):
    """`sys.exit(function())`, but for taking the interpreter apart: to touch all of its memory costs half a second."""
    code = 1
    try:
        code = function()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if isinstance(code, str) else code or 0)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        ask(*sys.argv[1:])
    sys.executable = str(Path(sys.argv[1]).with_name(PYTHON_OF_FORKS))
    request, files = serve(sys.argv[1])
    signal.alarm(SECONDS)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for number in SIGNALS:
        ignored = number in request["ignored"]
        signal.signal(number, signal.SIG_IGN if ignored else
                      signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)  # fmt: skip
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["command"]
    module, function = COMMANDS[sys.argv[0]]
    end_with(getattr(__import__(module, fromlist=[function]), function))
