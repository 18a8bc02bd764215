import pytest

from tupe.cli.main import COMMANDS, load


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_explained(name):
    assert all(getattr(parameter, "help", None) or parameter.metavar for parameter in load(name).params)
