"""The package as it is installed: built from a copy of the sources, so that nothing is written beside them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.commands import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packaging")
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "tupe", folder / "tupe", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "."], cwd=folder, check=True)
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def described(wheel) -> Message:
    with ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(files.read(name).decode())


def required(described: Message, python: str) -> set[str]:
    """The requirements without extras that hold on the Python version."""
    requirements = map(Requirement, described.get_all("Requires-Dist"))
    here = {"python_version": python, "extra": ""}
    return {f"{r.name}{r.specifier}" for r in requirements if r.marker is None or r.marker.evaluate(here)}


@pytest.mark.parametrize(
    ("python", "fairseq"),
    [(f"3.{minor}", "fairseq==0.12.2" if minor < 11 else "fairseq-fixed==0.12.3.1") for minor in range(9, 15)],
)
def test_one_fairseq_for_each_python(described, python, fairseq):
    assert [name for name in required(described, python) if name.startswith("fairseq")] == [fairseq]


def test_python_3_9_and_later(described):
    assert described["Requires-Python"] == ">=3.9"


def test_every_module_is_packed(wheel):
    with ZipFile(wheel) as files:
        packed = {name for name in files.namelist() if name.startswith("tupe/")}
    ours = [*ROOT.glob("tupe/**/*.py"), *ROOT.glob("tupe/analysis/template/*")]
    assert packed == {path.relative_to(ROOT).as_posix() for path in ours}


def test_installed_plugin_is_found_by_fairseq_from_any_folder(wheel, tmp_path):
    site = tmp_path / "site-packages"
    options = ["--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    env = {**os.environ, "PYTHONPATH": str(site)}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
        return done.stdout

    user_dir = run(str(site / "bin" / "tupe"), "user-dir").rstrip("\n")
    assert user_dir == str(site / "tupe")
    fairseq_train = str(Path(sys.executable).with_name("fairseq-train"))
    assert "tupe_masked_lm" in run(fairseq_train, "--user-dir", user_dir, "--arch", "tupe_base", "--help")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="importlib.metadata maps too few modules to packages")
def test_all_that_is_imported_is_declared(described):
    declared = {canonicalize_name(Requirement(line).name) for line in described.get_all("Requires-Dist")}
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.glob("tupe/**/*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    foreign = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"tupe"}
    packages = metadata.packages_distributions()
    assert {"fairseq", "torch"} <= foreign
    assert not [name for name in foreign if not {canonicalize_name(p) for p in packages[name]} & declared]


def test_all_that_is_installed_is_pinned(described):
    """Follows the requirements of the package and of its test extra as far as they go in this environment."""
    file = "constraints.txt" if sys.version_info >= (3, 11) else "constraints-py39.txt"
    lines = [line for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line) for line in lines)
    pinned = {line.partition("==")[0] for line in lines}

    missing, seen = set(), set()
    waiting = [(line, "test") for line in described.get_all("Requires-Dist")]
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        seen.add(name)
        if name not in pinned:
            missing.add(name)
        waiting += [(line, "") for line in metadata.requires(name) or ()]
    assert not missing
