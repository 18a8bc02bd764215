"""What a model is, from a name with fields and from a checkpoint."""

import pytest

from tupe.checkpoints.load import write_checkpoint
from tupe.cli.main import main
from tupe.models.describe import equation, with_fields
from tupe.systems import SYSTEMS, system_of


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_knows_itself(name):
    assert system_of(vars(with_fields(f"{name}_tiny", []))) == name


CONTENT = "(x_i W^Q)(x_j W^K)^T"
EQUATIONS = {
    "bert_a_tiny": f"{CONTENT}/sqrt(d), positions added to the embeddings",
    "seq2seq_sinusoidal_tiny": f"{CONTENT}/sqrt(d), positions added to the embeddings",
    "tupe_tiny": f"{CONTENT}/sqrt(2d) + reset((p_i U^Q)(p_j U^K)^T/sqrt(2d) + b[bucket(j - i)])",
    "tupe_tiny relative=unbinned reset=none": f"{CONTENT}/sqrt(2d) + (p_i U^Q)(p_j U^K)^T/sqrt(2d) + R[j - i]",
    "bert_ad_tiny": "(x_i W^Q + p_i U^Q)(x_j W^K + p_j U^K)^T/sqrt(4d)",
    "bert_ad_tiny relative=shaw": "(x_i W^Q + p_i U^Q)(x_j W^K + p_j U^K + a[clip(j - i)])^T/sqrt(4d)",
    "rope_tiny segment=none": "(R_i x_i W^Q)(R_j x_j W^K)^T/sqrt(d)",
    "alibi_tiny segment=none": f"{CONTENT}/sqrt(d) - m |j - i|",
    "bialibi_tiny segment=none": f"{CONTENT}/sqrt(d) + reset(-m |j - i|)",
    "shaw_tiny": "(x_i W^Q)(x_j W^K + a[clip(j - i)])^T/sqrt(d), segments added to the embeddings",
    "deberta_tiny": f"({CONTENT} + (x_i W^Q)(P[i - j] W^K)^T + (P[i - j] W^Q)(x_j W^K)^T)/sqrt(3d), segments added "
    "to the embeddings",
    "tupe_a_tiny relative=deberta": f"({CONTENT} + (x_i W^Q)(P[i - j] W^K)^T + (P[i - j] W^Q)(x_j W^K)^T)/sqrt(4d) + "
    "reset((p_i U^Q)(p_j U^K)^T/sqrt(4d))",
    "diet_abs_tiny absolute=low_rank_input": f"{CONTENT}/sqrt(d) + P_Q[i] . P_K[j] + E_S[s_i, s_j], positions added "
    "to the embeddings",
    "linformer_tiny": "(x_i W^Q)((E x)_j W^K)^T/sqrt(d), positions and segments added to the embeddings",
}


@pytest.mark.parametrize("model", EQUATIONS)
def test_equations(model):
    name, *fields = model.split()
    assert equation(with_fields(name, fields)) == EQUATIONS[model]


def test_what_was_given_and_what_came_along(capsys):
    assert main(["describe", "tupe_tiny", "relative=unbinned", "--vocab-size", "100"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("model: tupe_tiny relative=unbinned\nsystem: no encoder that `tupe systems` lists\n")
    assert "  reset=paper\n" in out and "  relative=unbinned\n" in out
    assert not [name for name in ("fire_width", "relative_buckets", "rotary_base", "position_rank") if name in out]
    assert "(100 symbols, 512 positions)" in out
    layers, head = 4 * 12 * 128**2, 77 / 512 * (128**2 + 100 * 128)  # weights; 77 of 512 tokens are predicted
    operations = int(6 * (layers + head) + 12 * 512 * 128 * 4)
    assert f"\ncost: {operations:,} operations per token of training, in sequences of 512 with 15% predicted " in out


def test_a_checkpoint(tmp_path, build, capsys):
    model = build("diet_rel_tiny")
    write_checkpoint(tmp_path / "model.pt", model, "diet_rel_tiny")
    assert main(["describe", str(tmp_path / "model.pt")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("model: diet_rel_tiny encoder_layers=2 ")
    assert "\nsystem: DIET-REL\n" in out
    total = sum(parameter.numel() for parameter in model.parameters())
    assert f"parameters: {total:,}, " in out
    assert main(["describe", str(tmp_path / "model.pt"), "reset=paper"]) == 1
    assert "model.pt has its own fields" in capsys.readouterr().err
