"""Which ptxas a version of Triton runs for a GPU."""

import importlib.util
from types import SimpleNamespace

import pytest

from tupe.attention.verification import compiler


@pytest.mark.parametrize(
    ("triton", "capability", "name"),
    [
        ("3.4.0", (9, 0), "ptxas"),
        ("3.8.0", (9, 0), "ptxas"),
        ("3.8.0", (10, 0), "ptxas-blackwell"),
        ("3.9.0", (8, 0), "ptxas"),
        ("3.9.0", (9, 0), "ptxas-blackwell"),
        ("3.10.1", (12, 0), "ptxas-blackwell"),
    ],
)
def test_ptxas_of_a_version_of_triton(tmp_path, monkeypatch, triton, capability, name):
    folder = tmp_path / "backends" / "nvidia" / "bin"
    folder.mkdir(parents=True)
    (folder / "ptxas-blackwell").touch()
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", {"triton": spec}.get)
    monkeypatch.setattr(compiler, "version", {"triton": triton}.__getitem__)
    for variable in (compiler.VARIABLE, "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.delenv(variable, raising=False)
    assert compiler.ptxas(capability) == folder / name


def test_it_is_the_one_that_this_triton_names():
    nvidia = pytest.importorskip("triton.backends.nvidia.compiler")
    for capability in ((8, 0), (9, 0), (10, 0)):
        assert str(compiler.ptxas(capability)) == nvidia.get_ptxas(10 * capability[0]).path
