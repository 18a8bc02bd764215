"""The command of a training: its effective batch, and the processes that it runs in."""

import shutil
import subprocess
import sys

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.commands import ROOT
from tests.samples import write_checkpoint
from tupe.cli import launch
from tupe.cli.launch import training_of
from tupe.util import UserError, sha256, write_json

WMT18 = str(ROOT / "configs/translation/wmt18.yaml")
ODD = "a (folder), {é}=[1] #~;&*'"


def training(data="DATA", overrides=(), config="base", processes=1, nodes=1, **more):
    given = dict.fromkeys(("model", "init_from", "batch", "batch_per_gpu")) | more
    return training_of(
        data, list(overrides), config, processes=processes, nodes=nodes, gpus=0, gpu=None, mfu=0.4, **given
    )


def settings(*arguments, **more):
    """Return the overrides in a printed command as Hydra reads them. The last value of a key counts."""
    parsed = OverridesParser.create().parse_overrides(training(*arguments, **more).settings)
    return {one.key_or_group: one.value() for one in parsed}


@pytest.mark.parametrize(
    ("given", "unit", "each", "update_freq"),
    [
        ({}, "batch_size", 16, 16),
        ({"config": "diet", "processes": 8}, "batch_size", 64, 8),
        ({"config": "diet", "batch_per_gpu": 32}, "batch_size", 32, 128),
        ({"batch": 32, "batch_per_gpu": 8, "nodes": 2}, "batch_size", 8, 2),
        ({"config": "translation/multi30k_en_de"}, "max_tokens", 4096, 2),
        ({"config": WMT18, "processes": 4, "batch_per_gpu": 2048}, "max_tokens", 2048, 4),
    ],
)
def test_the_effective_batch_is_kept(given, unit, each, update_freq):
    found = settings(**given)
    assert found[f"dataset.{unit}"] == each
    assert found["optimization.update_freq"] == [update_freq]


def test_a_batch_that_cannot_be_kept():
    with pytest.raises(UserError, match="The batch of 256 is not a multiple of 3 processes x 16"):
        training(processes=3)


def test_names_and_overrides():
    found = settings(f"/{ODD}/1:/{ODD}/2", ["optimization.update_freq=[3]"], model="shaw_base")
    assert found["task.data"] == f"/{ODD}/1:/{ODD}/2"
    assert found["common.user_dir"] == str(ROOT / "tupe")
    assert found["model._name"] == "shaw_base"
    assert found["optimization.update_freq"] == [3]


def test_all_shards_of_a_corpus(tmp_path):
    write_json(tmp_path / "manifest.json", {"data": [".", "shard1"]})
    assert settings(f"{tmp_path}:other")["task.data"] == f"{tmp_path}:{tmp_path}/shard1:other"


def test_from_a_checkpoint(tmp_path):
    path = write_checkpoint(tmp_path / "t5/old.pt", tmp_path, name="t5_tiny")
    found = settings(config="continue", init_from=path)
    assert (found["model.pretrained"], found["task.tokens_per_sample"]) == (str(path), 32)
    assert found["checkpoint.save_dir"] == f"checkpoints/continue/t5-old-{sha256(path)[:8]}"  # and no other model's
    assert settings(overrides=["checkpoint.save_dir=a"], init_from=path)["checkpoint.save_dir"] == "a"


@pytest.fixture
def ran(monkeypatch):
    """`ran(processes=2)`: the command that a training becomes."""
    commands = []
    monkeypatch.setattr(launch.os, "execvp", lambda program, command: commands.append(command))
    monkeypatch.setattr(launch.os, "environ", {"PATH": launch.os.environ["PATH"]})

    def ran(**given):
        training(batch=32, batch_per_gpu=16, **given).run()
        return commands[-1]

    return ran


def test_one_process_is_fairseq(ran, capsys):
    assert ran()[:2] == ["fairseq-hydra-train", "--config-dir"]
    assert capsys.readouterr().out.startswith("fairseq-hydra-train --config-dir ")
    assert launch.os.environ["OMP_NUM_THREADS"]


def test_nodes_of_slurm_meet_at_a_port_of_the_job(ran):
    launch.os.environ |= {"SLURM_NNODES": "2", "SLURM_NODEID": "1", "SLURM_JOB_ID": "42", "MASTER_ADDR": "a"}
    command = ran(nodes=None)
    options = command[command.index("--nnodes") : command.index("--nproc-per-node")]
    assert options == ["--nnodes", "2", "--node-rank", "1", "--master-addr", "a", "--master-port", "20042"]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux has it")
def test_processes_die_with_torchrun(ran):
    command = ran(processes=2)
    assert "--standalone" in command and "--master-port" not in command  # so that two trainings do not meet
    setpriv = command[command.index("--no-python") + 1 :][:3]
    start = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    torchrun = subprocess.Popen(
        [sys.executable, "-S", "-c", start, *setpriv, "sh", "-c", "echo begun; exec sleep 60"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert torchrun.stdout.readline() == "begun\n"
    torchrun.kill()
    assert torchrun.communicate(timeout=30)[0] == ""  # once nothing has it open
