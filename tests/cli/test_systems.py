import pytest

from tupe.cli.main import main
from tupe.models.summary import count_parameters, meta_model
from tupe.systems import (
    ELECTRA_FIELDS,
    SEQ2SEQ_FIELDS,
    SEQ2SEQ_SIZES,
    SEQ2SEQ_SYSTEMS,
    SIZES,
    SYSTEM_FIELDS,
    SYSTEMS,
)


def test_table_has_every_system_and_size(capsys):
    assert main(["systems", "--vocab-size", "100", "--max-positions", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in SYSTEMS:
        assert sum(line.startswith(f"{name} ") for line in lines) == 2  # the equation, and the parameter counts
        assert sum(line.startswith(f"electra_{name} ") for line in lines) == 1
    assert all(size in "\n".join(lines) for size in SIZES)


def test_encoder_decoders(capsys):
    assert main(["systems", "--translation", "--vocab-size", "100", "--max-positions", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in SEQ2SEQ_SYSTEMS:
        assert sum(line.startswith(f"{name} ") for line in lines) == 2
    assert all(size in lines[-1] for size in SEQ2SEQ_SIZES)
    base = 6 * 8 * (31 + 16)  # DIET-REL's, of six layers a side, eight heads, 16 positions
    assert any(line.startswith("diet_rel ") and f" {base:,} / " in line for line in lines)


@pytest.mark.parametrize("field", [*SYSTEM_FIELDS, *ELECTRA_FIELDS, *SEQ2SEQ_FIELDS])
def test_every_field_is_explained(field, capsys):
    assert main(["systems", "--flags"]) == 0
    assert f"--{field.replace('_', '-')} " in capsys.readouterr().out


def test_counts_are_those_of_the_whole_model():
    """Counted from one layer and two."""
    for system in SYSTEMS:
        for fields in ({}, {"encoder_layers": 3, "sharing": "none"}):
            model = meta_model(f"{system}_tiny", 100, 16, **fields)
            assert count_parameters(f"{system}_tiny", 100, 16, **fields)[1] == sum(
                p.numel() for p in model.parameters()
            )
