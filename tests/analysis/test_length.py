"""The loss is the model's own on masks that are BERT's; lengths beyond its positions are left out or go on."""

import math

import numpy as np
import pytest
import torch

from tests.commands import ROOT
from tests.samples import WORDS, write_checkpoint
from tupe.analysis import length
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.length import loss_by_length, loss_by_position, mask, mean_and_half_interval
from tupe.checkpoints.edit import export_discriminator, extend_positions
from tupe.checkpoints.load import open_checkpoint
from tupe.util import UserError


@pytest.fixture
def text(monkeypatch):
    """`text(N)` is what every corpus holds out: so many random words."""

    def text(number):
        torch.manual_seed(0)
        stream = torch.randint(4, 4 + len(WORDS), (number,))
        monkeypatch.setattr(length, "read_stream", lambda *_: stream)
        return stream

    return text


def losses_one_by_one(encoder, windows, masks):
    """Bits of every masked token, `{(window, position in it): bits}`; `windows` are places in the stream."""
    tokens, target = masks
    found = {}
    for number, places in enumerate(windows):
        logits = encoder(torch.cat([torch.tensor([0]), tokens[places]])[None])[0][0].log_softmax(-1)
        for position, place in enumerate(places.tolist(), 1):
            if target[place] != encoder.dictionary.pad():
                found[number, position] = -logits[position, target[place]].item() / math.log(2)
    return found


@torch.no_grad()
def test_is_the_models_own_loss(tmp_path, text):
    encoder = open_encoder(write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=12))
    losses = losses_one_by_one(encoder, torch.arange(99).view(9, 11), mask(encoder, text(100)))
    wanted = [sum(bits for (_, position), bits in losses.items() if position == place) for place in range(12)]
    np.testing.assert_allclose(loss_by_position(encoder, tmp_path, 12)[0], wanted, rtol=1e-4)
    with pytest.raises(ValueError, match="12 positions"):
        loss_by_position(encoder, tmp_path, 13)


def test_masks_are_berts_whatever_comes_after(tmp_path, monkeypatch):
    encoder = open_encoder(write_checkpoint(tmp_path / "model.pt", tmp_path))
    stream = torch.randint(4, 4 + len(WORDS), (40_000,))
    masked, target = mask(encoder, stream)
    chosen = target != encoder.dictionary.pad()
    torch.testing.assert_close(target[chosen], stream[chosen])
    torch.testing.assert_close(masked[~chosen], stream[~chosen])
    kept, hidden = (masked[chosen].eq(other).float().mean() for other in (stream[chosen], 4 + len(WORDS)))
    assert (chosen.float().mean(), hidden) == pytest.approx((0.15, 0.8), abs=0.02)
    assert kept == pytest.approx(0.1 + 0.1 / len(WORDS), abs=0.015)
    torch.testing.assert_close(mask(encoder, stream[:70])[0], masked[:70])
    assert not mask(encoder, stream, drawing=1)[0].equal(masked)
    monkeypatch.setattr(length, "_REPLACED", 1)
    assert mask(encoder, stream)[0][chosen].unique().tolist() == [*range(4, 4 + len(WORDS))]


@torch.no_grad()
def test_centered_windows_score_the_same_tokens_once(tmp_path, monkeypatch, text):
    monkeypatch.setattr(length, "_TOKENS", 100)  # batches of four to twelve
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=9, name="t5_tiny")
    stream, encoder = text(300), open_encoder(path)
    found = loss_by_length(path, tmp_path, [8, 24], masks=2)["none"]
    assert [*found] == [8, 9, 24]
    assert found[9].difference == found[9].half_interval == 0
    extend_positions(path, 24, tmp_path / "longer.pt")
    assert open_encoder(tmp_path / "longer.pt").trained_length == 9
    encoder.sentence_encoder.max_positions = 24
    sums = {}
    for n in (8, 9, 24):
        stride = (n - 1) // 2
        begin = torch.arange(0, 300 - (n - 1) + 1, stride)
        skipped = (n - 1 - stride) // 2
        for drawing in range(2):
            masks = mask(encoder, stream, drawing)
            losses = losses_one_by_one(encoder, begin[:, None] + torch.arange(n - 1), masks)
            for (window, position), bits in losses.items():
                if skipped < position <= skipped + stride:
                    place = int(begin[window]) + position - 1
                    assert (n, drawing, place) not in sums
                    sums[n, drawing, place] = bits
    first, stop = 6, 300 - (23 - 6)  # of the middles of 24
    for n in (8, 9, 24):
        of = {key[1:]: bits for key, bits in sums.items() if key[0] == n and first <= key[2] < stop}
        assert of.keys() == {key[1:] for key in sums if key[0] == 24 and first <= key[2] < stop}
        assert found[n].bits == pytest.approx(np.mean([*of.values()]), rel=1e-4)
    assert found[24].difference == pytest.approx(found[24].bits - found[9].bits, abs=1e-6)


@pytest.mark.parametrize("name", ["rope_tiny", "tupe_a_rope_tiny", "linformer_tiny", "rope_modern_tiny"])
def test_a_window(tmp_path, text, name):
    """The window is half the training length, and models that are a Linformer or have a window get none."""
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=32, name=name)
    text(700)
    found = loss_by_length(path, tmp_path, [32, 64], window=True, masks=1)
    assert [*found] == ["none"] + ["window"] * (name in ("rope_tiny", "tupe_a_rope_tiny"))
    assert all([*of] == ([32, 64] if name == "rope_tiny" or "modern" in name else [32]) for of in found.values())
    own = write_checkpoint(tmp_path / "b", tmp_path, max_positions=32, name=name, attention_window=16 * len(found) - 16)
    assert [*found.values()][-1][32].bits == loss_by_length(own, tmp_path, [64], masks=1)["none"][32].bits
    assert loss_by_length(path, tmp_path, [32], longest=64, masks=1)["none"][32] == found["none"][32]


def test_interval_of_a_difference():
    """With stretches of one token it is that of a mean."""
    values = np.random.default_rng(0).normal(0.3, 2, (1, 5))
    masked = np.ones((1, 5), bool)
    mean, half = mean_and_half_interval(values, masked, 1)
    assert mean == pytest.approx(values.mean())
    assert half == pytest.approx(2.7764 * values.std(ddof=1) / math.sqrt(5), rel=1e-4)
    doubled = mean_and_half_interval(values.repeat(2, 1), masked.repeat(2, 1), 2)
    assert doubled == pytest.approx((mean, half))  # neighbors that are equal


def test_a_discriminator_has_no_such_loss(tmp_path, text):
    text(40)
    electra = ROOT / "tests/contract/fixtures/checkpoints/electra.pt"
    export_discriminator(electra, tmp_path / "alone.pt")
    assert open_checkpoint(tmp_path / "alone.pt").updates == open_checkpoint(electra).updates > 0
    for path in (electra, tmp_path / "alone.pt"):
        with pytest.raises(UserError, match="has no language-model head"):
            loss_by_position(open_encoder(path), tmp_path, 12)
