"""Which processes train, and how they find each other."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import DistributedTrainingConfig
from omegaconf import OmegaConf

from tests.commands import ROOT
from tupe.patches import launch
from tupe.util import UserError

TORCHRUN = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400", "WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1"}
FIELDS = ("distributed_world_size", "distributed_rank", "distributed_init_method", "distributed_no_spawn", "device_id")
BACKENDS = ("distributed_backend", "ddp_backend")


@pytest.fixture
def configured(monkeypatch):
    """`configured(gpus, environment, **fields)`: the configuration with which `fairseq-train` begins."""

    def configured(gpus, environment=(), **fields):
        for name in (*TORCHRUN, "SLURM_JOB_NODELIST"):
            monkeypatch.delenv(name, raising=False)
        for name, value in dict(environment).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # as with a driver that is too old
        distributed = OmegaConf.structured(DistributedTrainingConfig(device_id=0, distributed_world_size=max(1, gpus)))
        distributed.update(fields)
        monkeypatch.setattr(launch, "_call_main", lambda cfg, main: main(cfg))
        cfg = SimpleNamespace(common=SimpleNamespace(cpu=gpus == 0), distributed_training=distributed)
        return launch.call_main(cfg, lambda cfg: cfg.distributed_training)

    return configured


@pytest.mark.parametrize(
    ("gpus", "device", "backends"), [(0, 0, ["gloo", "legacy_ddp"]), (2, 1, ["nccl", "pytorch_ddp"])]
)
@pytest.mark.parametrize("given", [{}, {"distributed_world_size": 2}, {"distributed_init_method": "env://"}])
def test_torchrun(given, gpus, device, backends, configured):
    distributed = configured(gpus, TORCHRUN, **given)
    assert [distributed[field] for field in FIELDS] == [4, 3, "env://", True, device]
    assert [str(distributed[field]) for field in BACKENDS] == backends


def test_another_way_to_meet_is_left_alone(configured):
    given = {"distributed_world_size": 4, "distributed_rank": 1, "distributed_init_method": "tcp://host:1"}
    distributed = configured(2, TORCHRUN, **given)
    assert {field: distributed[field] for field in given} == given


@pytest.mark.parametrize("environment", [{}, {**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"}])
def test_one_process_is_left_alone(environment, configured):
    distributed = configured(0, environment)
    assert [distributed[field] for field in FIELDS] == [1, 0, None, False, 0]
    assert [str(distributed[field]) for field in BACKENDS] == ["nccl", "pytorch_ddp"]


@pytest.mark.parametrize(("size", "method"), [(1, "tcp://host:1"), (2, None)])
def test_nobody_would_start_the_processes_without_gpus(size, method, configured):
    with pytest.raises(UserError, match=rf"A world size of {size} .*torchrun --nproc-per-node {size}"):
        configured(0, distributed_world_size=size, distributed_init_method=method)


def begin(user_dir):
    launch.ImportUserDir().on_job_start(OmegaConf.create({"common": {"user_dir": str(user_dir)}}))


def test_fairseq_is_patched_before_a_job_begins(monkeypatch):
    """A process that a launcher starts imports fairseq's command after the plugin."""
    installed = []
    monkeypatch.setattr("tupe.patches.install.install", lambda: installed.append(True))
    begin(ROOT / "tupe")
    assert installed == [True]


def test_a_package_that_cannot_be_imported_ends_the_job(tmp_path, capsys):
    """Hydra alone prints a warning and goes on."""
    with pytest.raises(SystemExit) as ended:
        begin(tmp_path / "none")
    assert ended.value.code == 1
    assert "FileNotFoundError" in capsys.readouterr().err
