"""A run that was killed goes on bit for bit: 20 updates are 10, a SIGKILL, and the rest."""

import functools
import json
import re
import socket
import subprocess

import pytest
import torch

from tests.commands import ROOT, environment
from tests.contract import aliases as cli

#: An epoch has fewer than 10 updates.
SECOND = ("--batch-size", 64)
#: Flags of a run, and the number of its processes. A translation has batches by length, drawn in its first epoch.
RUNS = {
    "float32": (("--batch-size", 4, "--update-freq", 2), 1),
    "bf16": (("--bf16", "--optimizer", "fused_adamw"), 1),
    "fp16": (("--fp16", "--fp16-scale-window", 4, "--fp16-init-scale", 16), 1),
    "two processes": (("--batch-size", 4), 2),
    "second epoch": (SECOND, 1),
    "translation": ((cli.PADDED_ON_THE_RIGHT, *SECOND), 1),
    "workers": ((*SECOND, "--num-workers", 2), 1),
    "ELECTRA": (("--arch", "electra_tupe_r_tiny", "--criterion", "tupe_electra", "--generator-size", 0.5), 1),
}


def start(command, processes):
    """Start the processes as torchrun does, and return them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for rank in range(processes):
        of_rank = {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": f"{processes}",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"} if processes > 1 else {}  # fmt: skip
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        yield subprocess.Popen([*map(str, command)], cwd=ROOT, env=environment(**of_rank), **pipes)


def updates(line):
    found = re.search(r'train_inner \| (\{"epoch".*\})', line)
    return found and int(json.loads(found[1])["num_updates"])


def run(command, processes, kill_at=None):
    """Run to the end, or until the first process logs an update, when all are killed; return the logged updates."""
    started = [*start(command, processes)]
    lines = []
    for line in started[0].stdout:
        lines.append(line)
        if kill_at and updates(line) == kill_at:
            for process in started:
                process.kill()
    codes = [process.wait() or process.stdout.close() for process in started]
    assert codes == [-9 if kill_at else None] * processes, "".join(lines[-30:])
    return [found for found in map(updates, lines) if found]


def state(folder):
    """What a checkpoint holds of the training: parameters, optimizer, scale of the loss, place in the data."""
    saved = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    history = saved["optimizer_history"][-1]  # one entry for each start
    numbers = {name: value for name, value in history.items() if not isinstance(value, str)}
    return [saved["model"], saved["last_optimizer_state"], numbers, saved["extra_state"]["train_iterator"]]


@pytest.fixture(scope="module")
def command(data, parallel):
    """`command(name, folder, *options)`: that of a run."""
    kinds = {"translation": ("translation", parallel)}
    return lambda name, folder, *options: cli.train_command(
        *kinds.get(name, ("words", data)), folder, "--max-update", 20, *RUNS[name][0], *options
    )


@pytest.fixture(scope="module")
def whole(command, tmp_path_factory):
    """`whole(name)`: the state after an uninterrupted run, made once."""

    @functools.cache
    def whole(name):
        folder = tmp_path_factory.mktemp("whole")
        assert run(command(name, folder), RUNS[name][1]) == list(range(1, 21))
        return state(folder)

    return whole


@pytest.mark.parametrize("name", RUNS)
def test_killed_and_gone_on_with(name, whole, command, tmp_path):
    flags, processes = RUNS[name]
    saves = command(name, tmp_path, "--save-interval-updates", 5)
    killed = run(saves, processes, kill_at=11)
    assert 11 in killed and 20 not in killed
    assert (tmp_path / "checkpoint_1_10.pt").exists() == (SECOND[1] not in flags)
    resumed = run(saves, processes)
    assert resumed[0] in (6, 11, 16) and resumed[-1] == 20
    # workers that load the data change nothing
    expected = whole("second epoch" if name == "workers" else name)
    torch.testing.assert_close(state(tmp_path), expected, rtol=0, atol=0)


def test_processes_that_would_each_train_alone_are_refused(data, tmp_path):
    """The plugin is imported too late to connect the processes of torchrun."""
    done = cli.hydra_without_the_plugin(data, tmp_path, "torchrun", "--standalone", "--nproc-per-node=2", "--no-python")
    assert done.returncode and not list(tmp_path.rglob("*.pt"))
