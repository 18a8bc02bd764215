import subprocess
import sys

import pytest

from tests.commands import tupe
from tupe.models.config import ElectraConfig, Seq2SeqConfig
from tupe.systems import ELECTRA_SIZES, SEQ2SEQ_SIZES, SEQ2SEQ_SYSTEMS, SIZES, SYSTEMS, system_fields

KINDS = {"encoder": ("", SYSTEMS, SIZES), "electra": ("electra_", SYSTEMS, ELECTRA_SIZES),
         "translation": ("seq2seq_", SEQ2SEQ_SYSTEMS, SEQ2SEQ_SIZES)}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_table_has_every_system_and_size(kind, capsys):
    assert tupe("systems", "--kind", kind, "--parameters") == 0
    said = capsys.readouterr().out
    prefix, systems, sizes = KINDS[kind]
    assert "\nparameters, 32,768 symbols, 512 positions" in said
    assert all(f"\n{said}".count(f"\n{prefix}{name} ") == 2 for name in systems)  # the fields, and the counts
    assert all(f"{size} {fields['encoder_layers']} x " in said for size, fields in sizes.items())
    base = 6 * 8 * (1023 + 512)  # DIET-REL's, of six layers a side, eight heads, 512 positions
    assert (f" {base:,} / " in said) == (kind == "translation")


def test_the_help_and_the_list_need_no_torch():
    """Measure what a user waits for."""
    code = "import sys; from tupe.cli.main import main; main(['--help']); main(['systems']); "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'fairseq', 'tupe.cli.plan')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "tupe_a_tie_cls" in done.stdout


def test_every_field_is_explained(capsys):
    assert tupe("systems", "--flags") == 0
    said = capsys.readouterr().out
    assert all(f"--{field.replace('_', '-')} " in said for field in system_fields(ElectraConfig, Seq2SeqConfig))
