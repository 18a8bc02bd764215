"""The package as it is installed: built from a copy of the sources, installed by itself, used from another folder."""

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
    for name in ("setup.py", "pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, folder)
    for name in ("tupe", "configs", "docs/results/runs/cpu/final"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "."], cwd=folder, check=True)
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def described(wheel) -> Message:
    with ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(files.read(name).decode())


def test_every_file_is_packed(wheel):
    with ZipFile(wheel) as files:
        packed = {name for name in files.namelist() if name.startswith("tupe/")}
    ours = {path.relative_to(ROOT).as_posix() for pattern in ("**/*.py", "py.typed")
            for path in ROOT.glob(f"tupe/{pattern}")}  # fmt: skip
    ours |= {f"tupe/{path.relative_to(ROOT)}" for path in ROOT.glob("configs/**/*.yaml")}
    assert packed == ours


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs a command of the installed wheel in a folder that is not the clone."""
    folder = tmp_path_factory.mktemp("installed")
    site, programs = folder / "site-packages", Path(sys.executable).parent
    options = ["--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    path = f"{site / 'bin'}{os.pathsep}{programs}{os.pathsep}{os.environ['PATH']}"
    (folder / "elsewhere").mkdir()

    def run(*command: object) -> str:
        done = subprocess.run([*map(str, command)], cwd=folder / "elsewhere", capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(site), "PATH": path}, check=False)  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.rstrip("\n")

    run.site = site
    return run


def test_installed_plugin_is_found_by_fairseq_from_any_folder(installed):
    user_dir = installed("tupe", "user-dir")
    assert user_dir == str(installed.site / "tupe")
    assert "tupe_masked_lm" in installed("fairseq-train", "--user-dir", user_dir, "--arch", "tupe_base", "--help")
    assert re.search("^tupe_r +TUPE-R ", installed("tupe", "systems"), re.MULTILINE)


def test_installed_configurations_train_and_fine_tune(installed, corpus, glue):
    """No file of a clone is needed, from a pre-training to the table of a sweep."""
    configs = installed("tupe", "config-dir", "pretraining")
    assert configs == str(installed.site / "tupe/configs/pretraining")
    keys = ["optimization.max_update=4", "lr_scheduler.warmup_ratio=0.5", "common.cpu=true", "common.log_interval=1"]
    sizes = ["+model.encoder_layers=1", "+model.encoder_embed_dim=32", "+model.encoder_attention_heads=2"]
    keys += [f"common.user_dir={installed('tupe', 'user-dir')}", f"task.data={corpus}"]
    train = ["fairseq-hydra-train", "--config-dir", configs, "--config-name", "study", "checkpoint.save_dir=pretrained"]
    installed(*train, *keys, *sizes)
    keys = ["optimization.max_epoch=1", "dataset.num_workers=0"]
    grid = ["--tasks", "CoLA", "--lrs", "1e-3", "--seeds", "1"]
    table = installed("tupe", "sweep", "glue", *grid, "pretrained/checkpoint_last.pt", glue, "sweep", *keys)
    overrides = (installed.site.parent / "elsewhere/sweep/CoLA/lr_0.001/seed_1/.hydra/overrides.yaml").read_text()
    assert "| tupe_tiny " in table and f"common.user_dir={str(installed.site / 'tupe')!r}" in overrides


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
