"""scripts/quickstart.sh in small: interrupted, gone on with, and run again."""

import importlib.util
import os
import re
import signal
import subprocess
import time

from tests import commands
from tests.commands import ROOT

SCRIPT = ("bash", "scripts/quickstart.sh")


def environment(out, **more):
    """The script runs as for a user who has installed the plugin; the workflow runs it with real processes."""
    return commands.environment(QUICKSTART_INSTALL="0", QUICKSTART_OUT=str(out), **more)


def quickstart(out, **more):
    done = subprocess.run(
        SCRIPT, cwd=ROOT, env=environment(out, **more), capture_output=True, text=True, timeout=900, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def interrupted(out, **more):
    """Starts the script, and presses Ctrl-C in the first pre-training, which then writes a checkpoint to go on from."""
    process = subprocess.Popen(
        SCRIPT, cwd=ROOT, env=environment(out, **more), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 600
    log = out / "pretraining/tupe_tiny/hydra_train.log"
    while not (log.exists() and "begin training epoch 1" in log.read_text()):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    return process.returncode, said.splitlines()


def test_quickstart(tmp_path):
    tmp_path = tmp_path / "out"
    settings = {"QUICKSTART_UPDATES": "40", "QUICKSTART_EPOCHS": "1"}
    status, lines = interrupted(tmp_path, **settings)
    assert status == 130
    assert lines[-1] == "quickstart.sh: INTERRUPTED in step pretrain"

    status, lines, errors = quickstart(tmp_path, **settings)
    assert status == 0, "\n".join(lines[-30:]) + errors
    exports = importlib.util.find_spec("transformers") is not None
    exported = f", {tmp_path}/tupe-tiny for Transformers" * exports
    assert lines[-1] == f"quickstart.sh: done ({tmp_path}/report.html{exported})"
    assert (tmp_path / "tupe-tiny/config.json").exists() == exports
    assert "== quickstart.sh: prepare was done before" in lines
    assert re.search(r"Loaded checkpoint .*tupe_tiny/checkpoint_last.pt \(.* @ [1-3]?\d updates\)", "\n".join(lines))

    assert "<title>TUPE-R and BERT-A</title>" in (tmp_path / "report.html").read_text()
    rows = printed_rows(lines)
    assert rows.keys() == {"TUPE-R", "BERT-A"}
    for row in rows.values():
        assert 1_200_000 < int(row[2].replace(",", "")) < 1_500_000
        assert 2 < float(row[4]) < 11  # log2 of the vocabulary is 12
        assert 0 < float(row[6]) < 100
        assert -100 <= float(row[7]) <= 100

    status, lines, _ = quickstart(tmp_path, **settings)
    assert status == 0
    assert sum("was done before" in line for line in lines) == 6 + exports
    assert printed_rows(lines) == rows


def printed_rows(lines):
    """The cells of the report's table, by the name of the system."""
    rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    return {row[0]: row for row in rows if len(row) == 9 and row[3] == "40"}
