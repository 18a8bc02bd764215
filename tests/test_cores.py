"""Affinity and container shares; the threads that the scripts give to commands."""

import os
import platform

import pytest

from tests.commands import ROOT, run
from tupe.cores import available_cores, processor

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
    assert done.stdout.split() == [str(threads), given.get("GOMP_SPINCOUNT", "100000")]


def test_the_processor_by_its_name_or_its_kind(tmp_path):
    assert processor(tmp_path) == (platform.processor() or platform.machine())
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU 9000\n")
    assert processor(tmp_path) == "Some CPU 9000"
