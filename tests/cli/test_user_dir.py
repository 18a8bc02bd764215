import os
import shutil
import subprocess
import sys
from pathlib import Path

import tupe
from tupe.cli.main import main
from tupe.util import config_dir


def test_prints_the_folder_of_the_package_and_nothing_else():
    out = subprocess.run([sys.executable, "-m", "tupe", "user-dir"], check=True, capture_output=True, text=True).stdout
    assert out == f"{Path(tupe.__file__).resolve().parent}\n"


def test_the_folders_of_the_configurations(capsys):
    for kind in ("", "study"):
        assert main(["config-dir", *filter(None, [kind])]) == 0
        assert Path(capsys.readouterr().out.strip()) == config_dir(kind)


def test_beside_a_folder_of_its_name(tmp_path):
    """A clone is called so, and Python looks for packages where it is started before it asks an installation."""
    (tmp_path / "tupe").mkdir()
    command = [sys.executable, "-c", "import tupe; print(tupe.__file__)"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout == f"{tupe.__file__}\n"


def test_fairseq_finds_the_installed_package_by_its_name(tmp_path):
    """As after `pip install .`: `--user-dir tupe` anywhere, where no other folder is called so."""
    import fairseq

    for package in (Path(fairseq.__file__).parent, Path(tupe.__file__).parent):
        (tmp_path / "site").mkdir(exist_ok=True)
        if package.name == "fairseq":  # it looks beside its own folder
            shutil.copytree(package, tmp_path / "site/fairseq", ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (tmp_path / "site/tupe").symlink_to(package)
    (tmp_path / "here").mkdir()
    code = (
        "from argparse import Namespace as N\n"
        "from fairseq.utils import import_user_module\n"
        "import_user_module(N(user_dir='tupe'))\n"
        "from fairseq.models import ARCH_MODEL_REGISTRY\n"
        "print('tupe_base' in ARCH_MODEL_REGISTRY)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "here", env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True\n"
