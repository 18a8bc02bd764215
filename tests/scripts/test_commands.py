"""What the scripts give to the commands, from a clone and of folders with any names. The commands are recorders."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.commands import ROOT, run

ODD = "a (folder), {é}=[1] #~;&*"
RECORDER = """
import json, os, sys
from pathlib import Path

with Path(os.environ["RECORD"]).open("a") as record:
    print(json.dumps(sys.argv[1:]), file=record)
answers = {"user-dir": Path(__file__).parent}
print(answers.get(sys.argv[1], ""))
"""


class Clone:
    """A clone whose package is not installed, and the folder that its scripts are called from."""

    def __init__(self, folder: Path):
        self.root = folder / ODD
        self.here = folder / "elsewhere"
        self.record = folder / "record"
        for name in ("scripts", "configs"):
            shutil.copytree(ROOT / name, self.root / name)
        for name in ("tupe/__main__.py", ".venv/bin/torchrun", ".venv/bin/fairseq-hydra-train"):
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!{sys.executable}{RECORDER}")
            path.chmod(0o755)
        (self.root / "tupe/__init__.py").touch()  # a package, as a whole one that PYTHONPATH names would come first
        self.here.mkdir()

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        environment = {"RECORD": str(self.record), "GPUS": "0", **environment}
        return run("bash", self.root / "scripts" / script, *arguments, cwd=self.here, check=False, **environment)

    def calls(self) -> list[list[str]]:
        """The arguments of every command."""
        return [json.loads(line) for line in self.record.read_text().splitlines()] if self.record.exists() else []

    def trained(self) -> dict[str, object]:
        """What Hydra reads from the command line of the training."""
        (call,) = (call for call in self.calls() if "--config-dir" in call)
        _, folder, _, _, *overrides = call[call.index("--config-dir") :]
        assert Path(folder).parent == self.root / "configs"
        parsed = OverridesParser.create().parse_overrides(overrides)
        return {one.key_or_group: one.value() for one in parsed}  # the last one of a key counts


@pytest.fixture
def clone(tmp_path) -> Clone:
    return Clone(tmp_path)


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("prepare_corpus.sh", ["prepare-corpus"]),
        ("prepare_glue.sh", ["prepare-glue"]),
        ("prepare_translation.sh", ["prepare-translation"]),
        ("finetune_glue.sh", ["finetune"]),
        ("glue.sh", ["sweep", "glue"]),
    ],
)
def test_arguments_go_through(script, command, clone):
    arguments = ["a b", "it's", "c,d=[1]", "-x"]
    clone.run(script, *arguments)
    assert clone.calls() == [[*command, *arguments]]


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("pretrain.sh", []),
        ("finetune_glue.sh", ["--help", "CHECKPOINT", "DATA"]),
        ("xtreme.sh", []),
        ("test.sh", ["-h"]),
    ],
)
def test_usage(script, arguments, clone):
    done = clone.run(script, *arguments)
    assert done.returncode == 2
    assert f"  bash scripts/{script} " in done.stderr
    assert "\n#" not in done.stderr and clone.calls() == []


@pytest.mark.parametrize(
    ("environment", "model", "batch_size", "update_freq"),
    [
        ({}, None, 16, 16),
        ({"CONFIG": "diet"}, None, 64, 64),
        ({"CONFIG": "quickstart"}, None, 32, 1),
        ({"CONFIG": "diet", "PROCESSES": "8"}, None, 64, 8),
        ({"CONFIG": "diet", "MODEL": "shaw_base", "BATCH_PER_GPU": "32"}, "shaw_base", 32, 128),
        ({"BATCH": "32", "BATCH_PER_GPU": "8"}, None, 8, 4),
    ],
)
def test_pretraining_is_what_the_configuration_says(environment, model, batch_size, update_freq, clone):
    clone.run("pretrain.sh", "DATA", **environment)
    trained = clone.trained()
    assert trained.get("model._name") == model
    assert trained["dataset.batch_size"] == batch_size
    assert trained["optimization.update_freq"] == [update_freq]


def test_pretraining_in_folders_of_any_name(clone):
    clone.run("pretrain.sh", f"/{ODD}/1:/{ODD}/2", f"checkpoint.save_dir='{ODD}'", "optimization.max_update=3")
    trained = clone.trained()
    assert trained["common.user_dir"] == str(clone.root / "tupe")
    assert trained["task.data"] == f"/{ODD}/1:/{ODD}/2"
    assert trained["checkpoint.save_dir"] == ODD
    assert trained["optimization.max_update"] == 3


@pytest.mark.parametrize(
    ("environment", "model", "max_tokens", "update_freq"),
    [
        ({}, None, 4096, 8),
        ({"CONFIG": "multi30k_en_de", "MODEL": "seq2seq_shaw_tiny"}, "seq2seq_shaw_tiny", 4096, 2),
        ({"CONFIG": "wmt18", "PROCESSES": "4", "TOKENS_PER_GPU": "2048"}, None, 2048, 4),
    ],
)
def test_translation_is_what_the_configuration_says(environment, model, max_tokens, update_freq, clone):
    clone.run("translate_train.sh", "DATA", "checkpoint.save_dir=OUT", **environment)
    trained = clone.trained()
    assert trained.get("model._name") == model
    assert trained["dataset.max_tokens"] == max_tokens
    assert trained["optimization.update_freq"] == [update_freq]
    assert trained["checkpoint.save_dir"] == "OUT"


def test_the_quickstart_leaves_what_is_of_others(tmp_path):
    (tmp_path / "notes").write_text("mine")
    done = run("bash", "scripts/quickstart.sh", check=False, QUICKSTART_OUT=str(tmp_path), QUICKSTART_INSTALL="0")
    assert done.returncode == 1
    assert f"error: {tmp_path} holds what is not of quickstart.sh" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


TWO = {"PROCESSES": "2", "BATCH": "32", "BATCH_PER_GPU": "16"}


def test_two_runs_on_one_machine_do_not_meet(clone):
    """torchrun finds a free port."""
    clone.run("pretrain.sh", "DATA", **TWO)
    launched = clone.calls()[-1]
    assert "--standalone" in launched and "--master-port" not in launched


def test_the_batch_is_kept(clone):
    done = clone.run("pretrain.sh", "DATA", PROCESSES="3")
    assert done.returncode == 1 and "3 processes x 16 sequences do not divide the batch of 256" in done.stderr
    clone.run("pretrain.sh", "DATA", **TWO)
    assert "optimization.update_freq=[1]" in clone.calls()[-1]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux has it")
def test_processes_die_with_torchrun(clone):
    clone.run("pretrain.sh", "DATA", **TWO)
    launched = clone.calls()[-1]
    setpriv = launched[launched.index("--no-python") + 1 :][:3]
    start = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    torchrun = subprocess.Popen(
        [sys.executable, "-S", "-c", start, *setpriv, "sh", "-c", "echo begun; exec sleep 60"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert torchrun.stdout.readline() == "begun\n"
    torchrun.kill()
    assert torchrun.communicate(timeout=30)[0] == ""  # once nothing has it open


SLURM = {"SLURM_NNODES": "2", "SLURM_NODEID": "1", "SLURM_JOB_NODELIST": "a,b", "SLURM_JOB_ID": "42"}


def test_nodes_of_slurm_meet_at_a_port_of_the_job(clone):
    scontrol = clone.root / ".venv/bin/scontrol"
    scontrol.write_text("#!/bin/sh\nprintf 'a\\nb\\n'\n")
    scontrol.chmod(0o755)
    clone.run("pretrain.sh", "DATA", **SLURM, PROCESSES="1", BATCH="32", BATCH_PER_GPU="16")
    launched = clone.calls()[-1]
    options = launched[launched.index("--nnodes") : launched.index("--nproc-per-node")]
    assert options == ["--nnodes", "2", "--node-rank", "1", "--master-addr", "a", "--master-port", "20042"]
