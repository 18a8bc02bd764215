"""fairseq's commands and ours as processes forked from one that has imported fairseq, which takes each 3.5 s.

`programs()` is a folder for PATH. Each program in it asks that process for a fork of itself, with the same arguments,
environment, folder and files, hands on the signals that it gets, and ends as that does; if it is killed, so is that.
So the scripts, `torchrun` and the commands that start others start these, also by `sys.executable`. What differs from a
user's: Ctrl-C aside, a signal to the group of the program reaches the program alone, and the processor time that the
system counts for a program is not that of its fork.

    python -m tests.forked FOLDER LISTENER         # answers requests
    python -S forked.py FOLDER PROGRAM ARGUMENT... # makes one
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
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
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
#: Handed on, but for those that the program ignores; SIGINT to the whole group, as a terminal does.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
SECONDS = 600  # until a command that hangs is ended
#: Modules of this tree, and not of a clone, are run by forks.
PYTHON = f"""
case "${{PYTHONPATH%%:*}} $1 $2 $3" in
    "{ROOT} -P -m tupe."* | "{ROOT} -u -m tupe."*) shift 2; REQUEST module "$@" ;;
    "{ROOT} -m torch.distributed.run "*) shift 2; REQUEST torchrun "$@" ;;
    "{ROOT} -m tupe "* | "{ROOT} -m tupe."* | "{ROOT} -m lab."* | "{ROOT} -m tests."*) shift; REQUEST module "$@" ;;
esac
exec "{sys.executable}" "$@"
"""


@functools.cache
def programs():
    """The folder of the programs; the process that they ask, one for all tests of this one, ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="tupe-"))
    request = f'exec "{sys.executable}" -SE "{__file__}" {folder}'
    for name in COMMANDS:
        write(folder / name, f'{request} {name} "$@"')
    write(folder / "python3", PYTHON.replace("REQUEST", request))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"{folder}/socket")
        listener.listen(64)
        number = listener.fileno()
        command = [sys.executable, "-m", "tests.forked", folder, str(number)]
        # 1 may be pytest-xdist's own
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=2, pass_fds=[number])
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


def ask(folder, *command):
    """The program: asks for the fork, and becomes what comes out of it."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(f"{folder}/socket")
    request = {"command": command, "cwd": os.getcwd(), "env": dict(os.environ)}
    files = array.array("i", (0, 1, 2))
    server.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: server.sendall(bytes([number])))
    answer = server.recv(2)  # none if the server is gone
    code = int.from_bytes(answer, "big", signed=True) if answer else 1
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    sys.exit(code)


def serve(listener):
    """Forks a keeper for every request, and returns in what that forks: the request, and its files."""
    for module in dict.fromkeys(name for name, _ in COMMANDS.values() if not name.startswith(("tupe.", "tests."))):
        __import__(module)
    import torch._dynamo  # noqa: F401  or every training would: with its first optimizer PyTorch does, for a second

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a keeper
    gc.freeze()  # or to collect would touch, and so copy, what the forks share
    while listener in select.select([listener, sys.stdin], [], [])[0]:  # until the tests' process ends
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            return keep(connection)
        connection.close()
    sys.exit()


def keep(connection):
    """Keeps the command: forks it, hands signals on to it, and answers with its end."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    child = os.fork()
    if not child:
        connection.close()
        return json.loads(request), files
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
    try:
        code = function()
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    folder, *arguments = sys.argv[1:]
    if not arguments[0].isdecimal():
        ask(folder, *arguments)
    sys.executable = f"{folder}/python3"
    request, files = serve(socket.socket(fileno=int(arguments[0])))
    signal.alarm(SECONDS)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["command"]
    module, function = COMMANDS[sys.argv[0]]
    end_with(getattr(__import__(module, fromlist=[function]), function))
