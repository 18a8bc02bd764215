"""fairseq's commands as processes forked from one that has imported them: to import fairseq anew takes seconds of each.

They differ from `fairseq-train ...` of a user in nothing else: arguments, environment, folder, output, how they end.

    python -m tests.forked      # reads requests and answers them: a line of JSON each
"""

import atexit
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = {
    f"fairseq-{name}": f"fairseq_cli.{name.replace('-', '_')}"
    for name in ("train", "hydra-train", "preprocess", "validate", "generate", "interactive")
}


@functools.cache
def server():
    """The process that forks, one for all tests of this one; it ends when its input does."""
    command, root = [sys.executable, "-m", "tests.forked"], Path(__file__).parents[1]
    process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(end, process, os.getpid())
    return process


def end(process, owner):
    """Unless this is a fork of the tests' process, which leaves its server alone."""
    if os.getpid() == owner:
        process.communicate()


def run(command, cwd, env):
    """As `subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)`."""
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder) / name for name in ("out", "err")]
        request = {"command": command, "cwd": str(cwd), "env": env, "said": [str(path) for path in said]}
        server().stdin.write(f"{json.dumps(request)}\n")
        server().stdin.flush()
        returncode = json.loads(server().stdout.readline())
        return subprocess.CompletedProcess(command, returncode, *(path.read_text() for path in said))


def serve():
    """Forks for every request, and returns in the child, which is to run the command."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for module in COMMANDS.values():
            importlib.import_module(module)
        for line in sys.stdin:
            sys.stdout.flush()
            child = os.fork()
            if not child:
                return json.loads(line)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
    sys.exit()


if __name__ == "__main__":
    request = serve()
    signal.alarm(600)  # seconds until one that hangs is ended
    for number, path in enumerate((os.devnull, *request["said"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["command"]
    sys.exit(importlib.import_module(COMMANDS[sys.argv[0]]).cli_main())
