"""The loss by position is the model's own on fairseq's masks; lengths beyond its positions are refused or go on."""

import math

import numpy as np
import pytest
import torch

from tests.samples import WORDS, write_checkpoint
from tupe.analysis import length
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.length import PositionLoss, loss_by_position, plot_loss_by_position
from tupe.checkpoints.electra import export_discriminator
from tupe.errors import UserError


@torch.no_grad()
def test_is_the_models_own_loss(tmp_path, monkeypatch):
    path = write_checkpoint(tmp_path / "model.pt", tmp_path, max_positions=12)
    torch.manual_seed(0)
    tokens = torch.randint(4, 4 + len(WORDS), (9, 12))
    monkeypatch.setattr(length, "read_tokens", lambda *_: tokens)
    monkeypatch.setattr(length, "_TOKENS", 40)  # batches of three
    measured, again, other = (loss_by_position(path, tmp_path, 12, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(measured.bits, again.bits)
    assert not np.array_equal(measured.count, other.count)
    encoder = open_encoder(path)
    masked, target = length._masked(encoder, tokens, 1)
    wanted = np.zeros(12)
    logits = encoder(masked)[0].log_softmax(-1)
    for row, column in target.ne(encoder.dictionary.pad()).nonzero().tolist():
        assert target[row, column] == tokens[row, column]
        wanted[column] -= logits[row, column, target[row, column]] / math.log(2)
    np.testing.assert_allclose(measured.bits, wanted, rtol=1e-4)
    assert measured.mean() == pytest.approx(wanted.sum() / measured.count.sum(), rel=1e-4)
    with pytest.raises(UserError, match="has 12 positions, fewer than 13: make it longer by `tupe extend-positions`"):
        loss_by_position(path, tmp_path, 13)


def test_a_discriminator_has_no_such_loss(save, tmp_path):
    with pytest.raises(UserError, match="is of a discriminator, which has no language-model head"):
        loss_by_position(save("electra_bert_a_tiny", encoder_attention_heads=2)[0], tmp_path, 12)
    export_discriminator(tmp_path / "checkpoint.pt", tmp_path / "alone.pt")
    with pytest.raises(UserError, match="is of a discriminator, which has no language-model head"):
        loss_by_position(tmp_path / "alone.pt", tmp_path, 12)


def test_relative_terms_go_on(save):
    path, _ = save("t5_tiny")
    encoder = open_encoder(path)
    length._allow(encoder, 50, path)
    assert encoder(torch.zeros(1, 50, dtype=torch.int64), features_only=True)[0].shape[1] == 50
    for name in ("bert_r_tiny", "diet_rel_tiny", "linformer_tiny"):
        path, _ = save(name)
        with pytest.raises(UserError, match="has 20 positions"):
            length._allow(open_encoder(path), 50, path)


def test_picture(tmp_path):
    loss = PositionLoss(np.arange(64.0), np.ones(64))
    middles, means = loss.smooth(16)
    assert middles.tolist() == [8, 24, 40, 56]
    assert means.tolist() == [7.5, 23.5, 39.5, 55.5]
    plot_loss_by_position({"one": loss}, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").stat().st_size > 1000
