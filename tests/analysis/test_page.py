"""The page has the figures that a model has, no script, and every name as text."""

import html
import re

import pytest
import torch

from tupe.analysis.curves import TrainingLog
from tupe.analysis.page import FIGURES, write_page

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>&\"'\u2028<!--"
TOKENS = torch.randint(2, 4, (2, 9), generator=torch.Generator().manual_seed(0))


def log(*losses):
    valid = {100 * n: {"loss": loss, "num_updates": 100 * n} for n, loss in enumerate(losses, 1)}
    return TrainingLog({100: {"loss": 9.0, "lr": 0.1, "num_updates": 100}}, valid)


def test_two_models_side_by_side(made, tmp_path):
    encoders = [made("tupe_tiny", "TUPE-R"), made("bert_a_tiny", HOSTILE)]
    write_page(
        tmp_path / "page.html",
        encoders,
        length=12,
        texts=[TOKENS] * 2,
        logs={"TUPE-R": log(8.0, 6.0, 5.0), HOSTILE: log(8.5, 8.0, 6.5)},
        against=HOSTILE,
        tables={HOSTILE: (HOSTILE, [["", HOSTILE], [HOSTILE, "61.0 ± 2.0"]])},
    )
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    sections = dict(re.findall(r"<summary>(.*?)</summary>(.*?)</details>", text, re.DOTALL))
    found = {name.lower(): sections[name].count("<svg") for name in sections if name.lower() in FIGURES}
    assert found == {"position": 1, "reset": 1, "similarity": 2, "correlations": 2}  # neither model has segments
    assert sections["Pre-training"].count("<svg") == sections["Ranks"].count("<svg") == 1
    assert "after 58% of its updates" in sections["Pre-training"]
    assert f"Not in {html.escape(HOSTILE)}." in sections["Position"]
    assert "head 3: " in sections["Position"]
    assert not re.search(r"<script|<img|<!--", text)
    addresses = set(re.findall(r'(?:href|src|url)(?:="|\()([^")]*)', text))
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in addresses)


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("system", ["tupe_r", "bert_ad", "diet_rel", "diet_abs", "diet_abs_lin", "rope"])
def test_what_a_figure_has_is_what_it_shows(figure, system, made):
    encoder = made(f"{system}_tiny")
    if FIGURES[figure].has(encoder.args):
        maps = FIGURES[figure].draw(encoder, TOKENS if figure == "correlations" else 9)
        assert len(maps.names) == len(maps.values)
        if figure == "segments":
            assert maps.values.flatten().equal(encoder.sentence_encoder.segment_attention.weight.flatten())
