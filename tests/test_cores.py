"""Affinity and container shares; the threads that the scripts give to commands."""

import os
import platform
import sys

import pytest

from tests.commands import ROOT, run
from tupe.cores import available_cores, cpu_environment, processor, visible_gpus

CORE = min(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def sixteen(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def machine(root, cgroup, **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/job/step\n", {"job/cpu.max": "400000 100000\n", "job/step/cpu.max": "max 100000\n"}, 4),
        ("0::/../other\n", {"cpu.max": "20000 100000\n"}, 1),
        ("3:cpu:/job\n", {"cpu/job/cpu.cfs_quota_us": "200000\n", "cpu/job/cpu.cfs_period_us": "100000\n"}, 2),
        ("3:cpu,cpuacct:/\n", {"cpu,cpuacct/cpu.cfs_quota_us": "-1\n"}, 16),
        ("4:memory:/\n0::/\n", {"cpu.max": "nonsense\n"}, 16),
    ],
)  # fmt: skip
def test_share_of_the_container(tmp_path, cgroup, files, cores):
    assert available_cores(machine(tmp_path, cgroup, **files)) == cores


def test_affinity(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert available_cores(tmp_path) == 1


@pytest.mark.parametrize(
    ("processes", "given", "threads"), [(1, {}, 1), (2, {}, 1), (1, {"OMP_NUM_THREADS": "3", "GOMP_SPINCOUNT": "7"}, 3)]
)
def test_scripts_share_the_cores_among_processes_and_do_not_spin(processes, given, threads):
    code = f'. scripts/lib/command.sh; for_cpu {processes}; echo "$OMP_NUM_THREADS $GOMP_SPINCOUNT"'
    environment = {"OMP_NUM_THREADS": "", "GOMP_SPINCOUNT": "", **given}
    done = run("taskset", "--cpu-list", CORE, "bash", "-c", code, cwd=ROOT, **environment)
    found_threads, spins = done.stdout.split()
    assert found_threads == str(threads)
    assert spins == given["GOMP_SPINCOUNT"] if given else spins in ("1000", "100000")


@pytest.mark.parametrize(
    ("loadavg", "spins"), [("0.1 0.1 0.1 1/200 77", 100_000), ("9.9 1 1 3/200 77", 1_000), ("", 100_000)]
)
def test_threads_spin_where_the_cores_are_free(monkeypatch, tmp_path, loadavg, spins):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/loadavg").write_text(loadavg)
    assert cpu_environment(root=tmp_path)["GOMP_SPINCOUNT"] == str(spins)


def test_the_processor_by_its_name_or_its_kind(tmp_path):
    assert processor(tmp_path) == (platform.processor() or platform.machine())
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU 9000\n")
    assert processor(tmp_path) == "Some CPU 9000"


SMI = """#!/bin/sh
echo 'GPU 0: NVIDIA A100 (UUID: GPU-a)'
echo '  MIG 3g.20gb Device 0: (UUID: MIG-b)'
echo 'GPU 1: NVIDIA A100 (UUID: GPU-c)'
"""


@pytest.mark.parametrize(
    ("variable", "gpus"),
    [(None, ["0", "1"]), ("", []), ("3,5", ["3", "5"]), ("1,-1,0", ["1"]), ("-1", []), ("GPU-c", ["GPU-c"])],
)
def test_gpus_that_may_be_used_by_package_and_scripts(variable, gpus, tmp_path, monkeypatch):
    command = tmp_path / "nvidia-smi"
    command.write_text(SMI)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible_gpus() == gpus
    assert run(sys.executable, ROOT / "tupe/cores.py", "gpus", PATH=os.environ["PATH"]).stdout == f"{len(gpus)}\n"


def test_without_nvidia_smi_there_is_no_gpu(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert visible_gpus() == []
