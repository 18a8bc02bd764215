import subprocess
import sys

import pytest

from tupe.cli.main import main
from tupe.models.config import ElectraConfig, Seq2SeqConfig
from tupe.models.summary import count_parameters, meta_model
from tupe.systems import ELECTRA_SIZES, SEQ2SEQ_SIZES, SEQ2SEQ_SYSTEMS, SIZES, SYSTEMS, system_fields


def test_table_has_every_system_and_size(capsys):
    for model, sizes, electra in (("", SIZES, []), ("electra_", ELECTRA_SIZES, ["--kind", "electra"])):
        assert main(["systems", *electra]) == 0
        plain = capsys.readouterr().out
        assert main(["systems", *electra, "--parameters", "--vocab-size", "100", "--max-positions", "16"]) == 0
        counted = capsys.readouterr().out
        assert counted.startswith(f"{plain}\nparameters, 100 symbols, 16 positions")
        for name in SYSTEMS:
            assert plain.count(f"\n{model}{name} ") == 1  # the fields
            assert counted.count(f"\n{model}{name} ") == 2  # and the counts
        assert all(f"{size} {fields['encoder_layers']} x " in plain for size, fields in sizes.items())
        assert ("electra_" in counted) == bool(electra)
        assert main(["systems", *electra, "--parameters"]) == 0
        assert "32,768 symbols, 512 positions" in capsys.readouterr().out


def test_the_list_needs_no_torch():
    """Measure what a user waits for."""
    code = "import sys; from tupe.cli.main import main; main(['systems']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "tupe_a_tie_cls" in done.stdout


def test_encoder_decoders(capsys):
    assert (
        main(["systems", "--kind", "translation", "--parameters", "--vocab-size", "100", "--max-positions", "16"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    for name in SEQ2SEQ_SYSTEMS:
        assert sum(line.startswith(f"seq2seq_{name} ") for line in lines) == 2
    sizes = next(line for line in lines if line.startswith("sizes: "))
    assert all(f"{size} " in sizes for size in SEQ2SEQ_SIZES)
    base = 6 * 8 * (31 + 16)  # DIET-REL's, of six layers a side, eight heads, 16 positions
    assert any(line.startswith("seq2seq_diet_rel ") and f" {base:,} / " in line for line in lines)


@pytest.mark.parametrize("field", system_fields(ElectraConfig, Seq2SeqConfig))
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
