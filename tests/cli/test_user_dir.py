from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tupe


def test_prints_the_folder_of_the_package_and_nothing_else():
    out = subprocess.run([sys.executable, "-m", "tupe", "user-dir"], check=True, capture_output=True, text=True).stdout
    assert out == f"{Path(tupe.__file__).resolve().parent}\n"
