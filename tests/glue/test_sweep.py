import pytest

from tupe.errors import UserError
from tupe.glue import sweep


def test_needs_a_clone(tmp_path, monkeypatch):
    """Where only the package is installed, there are no configurations and scripts."""
    monkeypatch.setattr(sweep, "ROOT", tmp_path)
    with pytest.raises(UserError, match=r"scripts/glue.sh of a clone"):
        sweep.make_plan(tmp_path / "checkpoint.pt", tmp_path, [], [])
