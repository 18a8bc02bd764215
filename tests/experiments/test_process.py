"""A process ends with the one that started it, is asked once to stop, and says what it took."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tupe.experiments import process
from tupe.experiments.process import Process, python_command


def test_a_command_ends_with_its_parent():
    """Even by SIGKILL, on Linux; and one whose parent is gone does not begin."""
    starter = [sys.executable, "-IS", process.__file__, "SIGTERM"]
    sleep = [sys.executable, "-S", "-c", "import time; print('begun', flush=True); time.sleep(600)"]
    code = f"import os, subprocess; p = subprocess.Popen([*{starter}, str(os.getpid()), *{sleep}]); p.wait()"
    parent = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "begun\n"
    parent.send_signal(signal.SIGKILL)
    began = time.monotonic()
    assert parent.stdout.read() == ""  # until the last that has it open is gone
    assert time.monotonic() - began < 60
    parent.wait()
    gone = subprocess.run([*starter, str(parent.pid), *sleep], stdout=subprocess.PIPE, check=False)
    assert (gone.returncode, gone.stdout) == (128 + signal.SIGTERM, b"")


def test_one_that_ends_as_it_is_stopped(monkeypatch):
    process = Process([sys.executable, "-S", "-c", "raise SystemExit(3)"])
    os.waitid(os.P_PID, process._process.pid, os.WEXITED | os.WNOWAIT)
    with monkeypatch.context() as patch:
        patch.setattr(Process, "ended", lambda _: False)  # when it was asked
        process.stop()
    assert process.ended() and process.code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_once_and_waits_for_what_it_saves(number, tmp_path):
    code = "import signal, sys, time\ndef save(*_):\n    time.sleep(0.3); print('saved', flush=True); sys.exit(3)\n"
    code += "signal.signal(signal.SIGTERM, save); print('begun', flush=True); time.sleep(600)"
    with (tmp_path / "log").open("wb") as log:
        started = Process([sys.executable, "-S", "-c", code], log=log)

    def interrupt():
        while not (tmp_path / "log").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    threading.Thread(target=interrupt).start()
    with pytest.raises(SystemExit) as end:
        started.finish()
    assert (end.value.code, started.code) == (128 + number, 3)
    assert (tmp_path / "log").read_text() == "begun\nsaved\n"
    assert signal.getsignal(number) == before


def test_a_child_holds_what_it_is_given(tmp_path):
    with (tmp_path / "a").open("w") as file:
        code = f"import os; os.write({file.fileno()}, b'held')"
        assert Process([sys.executable, "-S", "-c", code], held=[file]).finish() == 0
    assert (tmp_path / "a").read_text() == "held"


def test_it_is_one_process_whatever_a_launcher_says(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "2")
    code = "import os; raise SystemExit(sum(name in os.environ for name in ('MASTER_ADDR', 'MASTER_PORT', 'RANK', "
    assert Process([sys.executable, "-S", "-c", f"{code}'WORLD_SIZE')))"]).finish() == 0


def test_programs_are_those_of_this_python(monkeypatch, tmp_path):
    """Whatever the PATH holds, and without a module of the folder that it is started in."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairseq.py").write_text("raise SystemExit('shadowed')")
    done = subprocess.run(python_command("fairseq-hydra-train", "--version"), capture_output=True, text=True)
    assert (done.returncode, done.stdout[:6]) == (0, "Hydra ")


@pytest.mark.parametrize(("asked", "said"), [(None, ""), ("default", "of a library\n")])
def test_warnings_of_libraries_are_shown_on_demand(asked, said, tmp_path, monkeypatch):
    """Hydra warns before the plugin, which knows what no user can mend, is imported."""
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    if asked is not None:
        monkeypatch.setenv("PYTHONWARNINGS", asked)
    code = "import sys, warnings; warnings.showwarning = lambda m, *_: print(m); warnings.warn('of a library')"
    with (tmp_path / "log").open("wb") as log:
        assert Process([sys.executable, "-S", "-c", code], log=log).finish() == 0
    assert (tmp_path / "log").read_text() == said
