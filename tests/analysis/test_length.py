"""The loss is the model's own on masks that are BERT's; lengths beyond its positions are refused or go on."""

import math

import numpy as np
import pytest
import torch

from tests.samples import WORDS, write_checkpoint
from tupe.analysis import length
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.length import (
    CentredLoss,
    LengthLoss,
    PositionLoss,
    loss_by_length,
    loss_by_position,
    mask,
    plot_loss_by_length,
    plot_loss_by_position,
)
from tupe.checkpoints.electra import export_discriminator
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
def test_is_the_models_own_loss(tmp_path, monkeypatch, text):
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=12)
    stream = text(100)
    monkeypatch.setattr(length, "_TOKENS", 40)  # batches of three
    measured, again, other = (loss_by_position(path, tmp_path, 12, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(measured.bits, again.bits)
    assert not np.array_equal(measured.count, other.count)
    encoder = open_encoder(path)
    wanted = np.zeros(12)
    blocks = torch.arange(99).view(9, 11)
    for (_, position), bits in losses_one_by_one(encoder, blocks, mask(encoder, stream, 1)).items():
        wanted[position] += bits
    np.testing.assert_allclose(measured.bits, wanted, rtol=1e-4)
    assert measured.mean() == pytest.approx(wanted.sum() / measured.count.sum(), rel=1e-4)
    assert loss_by_position(path, tmp_path, 12, 2).count.sum() < measured.count.sum()
    with pytest.raises(UserError, match="has 12 positions, not 13"):
        loss_by_position(path, tmp_path, 13)


def test_masks_are_berts_whatever_comes_after(tmp_path):
    encoder = open_encoder(write_checkpoint(tmp_path / "model.pt", tmp_path))
    stream = torch.randint(4, 4 + len(WORDS), (40_000,))
    masked, target = mask(encoder, stream, 1)
    chosen = target != encoder.dictionary.pad()
    torch.testing.assert_close(target[chosen], stream[chosen])
    torch.testing.assert_close(masked[~chosen], stream[~chosen])
    symbol = 4 + len(WORDS)
    assert chosen.float().mean() == pytest.approx(0.15, abs=0.01)
    assert masked[chosen].eq(symbol).float().mean() == pytest.approx(0.8, abs=0.02)
    assert masked[chosen].eq(stream[chosen]).float().mean() == pytest.approx(0.1 + 0.1 / len(WORDS), abs=0.015)
    assert masked.min() >= 4 and masked[chosen].unique().numel() == len(WORDS) + 1
    torch.testing.assert_close(mask(encoder, stream[:70], 1)[0], masked[:70])
    assert not mask(encoder, stream, 1, drawing=1)[0].equal(masked)


@torch.no_grad()
def test_centred_windows_score_the_same_tokens_once(tmp_path, text):
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=9, name="t5_tiny")
    stream, encoder = text(300), open_encoder(path)
    base, extensions = loss_by_length(path, tmp_path, [8, 9, 24], masks=2)
    found = extensions["none"]
    assert found[9] == base and base.difference == base.half_interval == 0
    sums = {}
    for n in (8, 9, 24):
        stride = (n - 1) // 2
        begin = torch.arange(0, 300 - (n - 1) + 1, stride)
        skipped = (n - 1 - stride) // 2
        for drawing in range(2):
            losses = losses_one_by_one(length._open(encoder, 24), begin[:, None] + torch.arange(n - 1),
                                       mask(encoder, stream, 1, drawing))  # fmt: skip
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
    assert len(found[24].by_position) == 24 and found[24].by_position[0] is None


@pytest.mark.parametrize("name", ["rope_tiny", "tupe_a_rope_tiny", "linformer_tiny"])
def test_a_window(tmp_path, text, name):
    """It is half the length of training; Linformer has none, and a table has no more positions."""
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=32, name=name)
    text(700)
    _, found = loss_by_length(path, tmp_path, [32, 64], window=True, masks=1)
    assert list(found) == ["none"] + ["window"] * (name != "linformer_tiny")
    assert all([*of] == ([32, 64] if name == "rope_tiny" else [32]) for of in found.values())
    if "window" in found:
        overrides = {"attention_window": 16}
        assert found["window"] != found["none"]
        assert loss_by_length(path, tmp_path, [32, 64], overrides=overrides, masks=1)[1]["none"] == found["window"]


def test_interval_of_a_difference():
    """With stretches of one token it is that of a mean."""
    values = np.random.default_rng(0).normal(0.3, 2, (1, 500))
    whole = np.ones((1, 500), bool)
    losses = [CentredLoss(bits, whole, None) for bits in (values + 5, np.full((1, 500), 5.0))]
    mean, half = losses[0].difference(losses[1], 1)
    assert mean == pytest.approx(values.mean())
    assert half == pytest.approx(1.9647 * values.std(ddof=1) / math.sqrt(500), rel=1e-4)
    doubled = [CentredLoss(loss.bits.repeat(2, 1), whole.repeat(2, 1), None) for loss in losses]
    assert doubled[0].difference(doubled[1], 2) == pytest.approx((mean, half))  # neighbours that say the same


def test_a_table_has_no_row_beyond_its_positions(tmp_path, text):
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=9, name="tupe_a_tiny")
    text(200)
    base, found = loss_by_length(path, tmp_path, [9, 18])
    assert found == {"none": {9: base}}
    _, shorter = loss_by_length(path, tmp_path, [9])
    assert shorter["none"][9].bits != base.bits  # other tokens, unless told how long the windows of others are
    assert loss_by_length(path, tmp_path, [9], longest=18)[0] == base


def test_a_discriminator_has_no_such_loss(save, tmp_path):
    with pytest.raises(UserError, match="is a discriminator, which has no language-model head"):
        loss_by_position(save("electra_bert_a_tiny", encoder_attention_heads=2)[0], tmp_path, 12)
    export_discriminator(tmp_path / "checkpoint.pt", tmp_path / "alone.pt")
    with pytest.raises(UserError, match="is a discriminator, which has no language-model head"):
        loss_by_position(tmp_path / "alone.pt", tmp_path, 12)


def test_relative_terms_go_on(save):
    path, _ = save("t5_tiny")
    encoder = length._open(path, 50)
    assert encoder(torch.zeros(1, 50, dtype=torch.int64), features_only=True)[0].shape[1] == 50
    for name in ("bert_r_tiny", "diet_rel_tiny", "linformer_tiny"):
        path, _ = save(name)
        with pytest.raises(UserError, match="has 20 positions"):
            length._open(path, 50)


def test_picture(tmp_path):
    loss = PositionLoss(np.arange(64.0), np.ones(64))
    middles, means = loss.smooth(16)
    assert middles.tolist() == [8, 24, 40, 56]
    assert means.tolist() == [7.5, 23.5, 39.5, 55.5]
    plot_loss_by_position({"one": loss}, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 1000
    losses = {9: LengthLoss(4.0, 0.0, 0.0, (4.0, 5.0)), 18: LengthLoss(5.0, 1.0, 0.1, (4.0, 5.0, 6.0))}
    plot_loss_by_length({"one": losses, "none": {}}, tmp_path / "length.png")
    assert (tmp_path / "length.png").stat().st_size > 1000
