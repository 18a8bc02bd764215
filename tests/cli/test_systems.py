import pytest

from tupe.cli.main import main
from tupe.systems import SIZES, SYSTEM_FIELDS, SYSTEMS


def test_table_has_every_system_and_size(capsys):
    assert main(["systems", "--vocab-size", "100", "--max-positions", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in SYSTEMS:
        assert sum(line.startswith(f"{name} ") for line in lines) == 2  # the equation, and the parameter counts
    assert all(size in "\n".join(lines) for size in SIZES)


@pytest.mark.parametrize("field", SYSTEM_FIELDS)
def test_every_field_is_explained(field, capsys):
    assert main(["systems", "--flags"]) == 0
    assert f"--{field.replace('_', '-')} " in capsys.readouterr().out
