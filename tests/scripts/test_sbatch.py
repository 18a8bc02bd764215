"""`scripts/pretrain.sbatch` with stand-ins for `srun` and `scontrol`: two nodes on this machine."""

import os
import re
import signal
import socket
import subprocess
import time

import pytest
import torch

from tests.commands import ROOT, environment

#: Runs a task on each node, and hands signals on to them, as SLURM's does.
SRUN = """#!/usr/bin/env bash
[ "$1 $2" = "--kill-on-bad-exit=1 --cpus-per-task=2" ] && shift 2 || exit 99
for node in 0 1; do SLURM_NODEID=$node "$@" & tasks+=($!); done
trap 'kill -USR1 "${tasks[@]}"' USR1
status=0
for task in "${tasks[@]}"; do
    while wait "$task" && now=0 || now=$?; kill -0 "$task" 2>/dev/null; do :; done
    [ "$now" -eq 0 ] || status=$now
done
exit $status
"""
SCONTROL = """#!/usr/bin/env bash
if [ "$1" = show ]; then printf '127.0.0.1\\n127.0.0.1\\n'; else echo "$@" >>"$SCONTROL_LOG"; fi
"""


@pytest.fixture
def job(corpus, tmp_path):
    """`job(updates)`: starts the job, as SLURM does: a copy of the file, in the folder where it was submitted."""
    stand_ins = tmp_path / "bin"
    stand_ins.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (stand_ins / name).write_text(text)
        (stand_ins / name).chmod(0o755)
    copy = tmp_path / "slurm_script"
    copy.write_text((ROOT / "scripts/pretrain.sbatch").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def job(updates):
        keys = (f"optimization.max_update={updates}", "task.tokens_per_sample=32", "lr_scheduler.warmup_updates=2",
                "common.log_format=json", "common.log_interval=1", "dataset.num_workers=0", "+model.encoder_layers=1",
                "dataset.disable_validation=true", f"checkpoint.save_dir={tmp_path / 'run'}")  # fmt: skip
        of_job = {
            **environment(), "GPUS": "0", "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_ID": "42", "SLURM_NNODES": "2",
            "SLURM_CPUS_PER_TASK": "2", "SLURM_JOB_NODELIST": "a,b", "MASTER_PORT": str(port), "MODEL": "tupe_tiny",
            "BATCH": "8", "BATCH_PER_GPU": "4", "SCONTROL_LOG": str(tmp_path / "scontrol"),
        }  # fmt: skip
        of_job["PATH"] = f"{stand_ins}{os.pathsep}{of_job['PATH']}"
        with (tmp_path / "log").open("ab") as log:
            return subprocess.Popen(
                ["bash", str(copy), str(corpus), *keys], env=of_job, stdout=log, stderr=subprocess.STDOUT, cwd="/"
            )

    return job


def test_queues_itself_again_and_goes_on(job, tmp_path):
    log, requeued, last = tmp_path / "log", tmp_path / "scontrol", tmp_path / "run/checkpoint_last.pt"
    first = job(10**6)
    deadline = time.monotonic() + 500
    while '"num_updates": "3"' not in log.read_text():
        assert first.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    first.send_signal(signal.SIGUSR1)
    assert first.wait(timeout=300) != 0, log.read_text()
    assert requeued.read_text() == "requeue 42\n"
    done = int(re.search(r"stopped by SIGUSR1 after update (\d+): the same command", log.read_text())[1])
    assert torch.load(last, weights_only=True)["optimizer_history"][-1]["num_updates"] == done

    second = job(done + 2)
    assert second.wait(timeout=500) == 0, log.read_text()
    assert requeued.read_text() == "requeue 42\n"  # a finished job is not queued again
    assert torch.load(last, weights_only=True)["optimizer_history"][-1]["num_updates"] == done + 2
