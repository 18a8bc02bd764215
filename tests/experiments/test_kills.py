"""SIGKILL at any moment, of any process of a sweep: started again, it ends as if nothing had been.

The training is made: it takes a moment, and says if another is in the same folder. Some seeds start it by a launcher of
Hydra's. `TUPE_SEED=17 pytest ...` does again what failed; the seed is printed.
"""

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.commands import ROOT
from tests.samples import write_checkpoint, write_task
from tupe.experiments.runs import Run, result

TRAINING = """\
import fcntl, os, shutil, sys, time
from pathlib import Path

def cli_main():
    settings = dict(argument.split("=", 1) for argument in sys.argv if "=" in argument)
    folder = Path(settings["checkpoint.save_dir"].strip("'"))
    folder.joinpath("hydra_train.log").touch()
    with open(folder / "checkpoint_last.pt", "a") as busy:
        try:
            fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            folder.parents[2].joinpath("two at a time").touch()
        time.sleep(0.4)
        shutil.copy(f"{os.environ['KILLS_TEST']}/{settings['common.seed']}.pt", folder / "checkpoint_best.pt")

if __name__ == "__main__":
    cli_main()
"""
#: The real package but for this module.
PACKAGE = "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)\n"
KEPT = ("log", "result.json", "hydra_train.log", "settings.json", ".lock")
RUNS = [Run("CoLA", 2e-5, seed) for seed in range(1, 5)]


def processes(mark):
    """All of the sweep's, by what the kernel says of them."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found[int(name)] = Path(f"/proc/{name}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_sweep_that_is_killed(tmp_path):
    seed = int(os.environ.get("TUPE_SEED", random.SystemRandom().randrange(1000)))
    print(f"TUPE_SEED={seed}")
    generator = random.Random(seed)
    clone, out, mark = tmp_path / "clone", tmp_path / "out", f"KILLS_TEST={tmp_path}"
    for name in ("tupe", "configs"):
        shutil.copytree(ROOT / name, clone / name)
    (clone / "fairseq_cli").mkdir()
    (clone / "fairseq_cli/__init__.py").write_text(PACKAGE)
    (clone / "fairseq_cli/hydra_train.py").write_text(TRAINING)
    write_task(tmp_path / "data/CoLA")
    write_checkpoint(tmp_path / "a.pt", "data")
    state = torch.load(write_checkpoint(tmp_path / "trained.pt", "data", num_classes=2), weights_only=True)
    for run in RUNS:
        state["extra_state"]["best"] = 10.0 * run.seed
        torch.save(state, tmp_path / f"{run.seed}.pt")
    command = [sys.executable, "-m", "tupe", "sweep", "glue", "--tasks", "CoLA", "--lrs", "2e-5", "--seeds", "1,2,3,4"]
    command += [str(tmp_path / "a.pt"), str(tmp_path / "data"), str(out)]
    if generator.random() < 0.5 and importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher"):
        command += ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    environment = {**os.environ, "PYTHONPATH": str(clone), "KILLS_TEST": str(tmp_path)}

    for _ in range(2):
        process = subprocess.Popen(
            command, cwd=clone, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 300
        while not list(out.glob("CoLA/*/*/log")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(generator.uniform(0, 3))
        alive = sorted(processes(mark))
        if alive:
            os.kill(generator.choice(alive), signal.SIGKILL)
            if generator.random() < 0.7 and process.poll() is None:
                process.kill()
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=300)
        deadline = time.monotonic() + 400  # a worker of joblib's that waits looks for its parent after 300 s
        while processes(mark):  # what was started ends with who started it
            assert time.monotonic() < deadline, processes(mark)
            time.sleep(0.1)

    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not (out / "two at a time").exists()
    assert [result(out / run.folder).score for run in RUNS] == [10.0, 20.0, 30.0, 40.0]
    assert "| 25.00 ± 12.91 |" in done.stdout
    shutil.rmtree(out / "hydra", ignore_errors=True)  # the launcher's logs
    left = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    kept = {f"{run.folder}/{name}" for run in RUNS for name in KEPT}
    locks = {f"{run.folder.parent}/.{run.folder.name}.lock" for run in RUNS} | {"CoLA/.best.lock"}
    assert left == {"sweep.json", ".lock", f"{RUNS[-1].folder}/checkpoint_best.pt", *kept, *locks}
    assert len(json.loads((out / "sweep.json").read_text())["runs"]) == 4
