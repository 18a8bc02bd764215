"""The reference of the API, made of the docstrings, builds without a warning and has what users import."""

import sys

import pytest

import tupe.attention
import tupe.models
import tupe.position
from tests.commands import run

pytest.importorskip("sphinx", reason="needs pip install '.[docs]'")


def test_it_builds_and_is_complete(tmp_path):
    run(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs/api", tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    names = [
        f"{module.__name__}.{name}"
        for module in (tupe.attention, tupe.models, tupe.position)
        for name in module.__all__
        if name != "BACKENDS"
    ]
    names += ["tupe.hf.TupeForMaskedLM", "tupe.models.TupeModel.from_pretrained", "tupe.systems.SYSTEMS"]
    assert [name for name in names if f'id="{name}"' not in page] == []
