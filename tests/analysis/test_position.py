"""The position correlation of a checkpoint is what its model adds to the logits, and the picture shows it."""

import numpy as np
import pytest
import torch

from tupe.analysis import position
from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.logits import layer_logits
from tupe.analysis.position import plot_position, plot_reset, position_correlation
from tupe.util import UserError


@pytest.mark.parametrize(
    ("name", "fields", "names"),
    [
        ("tupe_tiny", {}, ["head 1", "head 2", "head 3"]),
        ("tupe_a_tie_cls_tiny", {}, ["head 1", "head 2", "head 3"]),
        ("bert_r_tiny", {}, ["head 1", "head 2", "head 3"]),
        ("bert_r_tiny", {"sharing": "head"}, ["layer 1", "layer 2"]),
        ("diet_rel_tiny", {}, [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)]),
    ],
)
def test_values_are_the_bias_of_the_model(name, fields, names, save):
    checkpoint, encoder = save(name, **fields)
    for length in (None, 7):
        correlation = position_correlation(checkpoint, length)
        torch.testing.assert_close(correlation.values, encoder.position_bias(length or 20).bias.detach())
        assert correlation.names == names
    assert correlation.reset == (name == "tupe_tiny")


def test_untied_positions_of_bert_ad(save):
    checkpoint, encoder = save("bert_ad_tiny")
    bias = encoder.position_bias
    table = bias.absolute.layer_norm(bias.absolute.table.weight)
    query, key = (u(table).view(20, 3, 8).transpose(0, 1) for u in (bias.absolute.query, bias.absolute.key))
    expected = query @ key.transpose(1, 2) / (4 * 8) ** 0.5
    torch.testing.assert_close(position_correlation(checkpoint).values, expected.detach())


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("bert_ad_tiny", {"content_terms": 1}),
        ("bert_ad_tiny", {"relative": "bucketed"}),
        ("tupe_tiny", {"content_terms": 1}),
        ("tupe_tiny", {"absolute": "free"}),
    ],
)
def test_values_are_what_is_left_of_the_logits_without_words(name, fields, save):
    encoder = open_encoder(save(name, **fields)[0])
    values = position_correlation(encoder, 7).values.double()
    for layer in encoder.sentence_encoder.layers:
        for parameter in layer.self_attn.qkv_proj.parameters():
            torch.nn.init.zeros_(parameter)
    logits = layer_logits(encoder, torch.tensor([[0, 3, 3, 2, 3, 3, 2]]))[0][0]
    torch.testing.assert_close(values, logits, rtol=1e-4, atol=1e-5)


def test_positions_at_the_input_have_no_picture(save):
    with pytest.raises(UserError, match=r"bert_a_tiny.* no position correlation.*TUPE-R.* have one"):
        position_correlation(save("bert_a_tiny")[0])


def images(correlation, monkeypatch):
    """The pictures in each square of the figure."""
    drawn = []
    monkeypatch.setattr(position, "save_figure", lambda figure, output, title: drawn.append(figure))
    plot_position(correlation, "unused.png")
    squares = [axes for axes in drawn[0].axes if axes.get_title()]
    assert [axes.get_title().partition(":")[0] for axes in squares] == correlation.names
    return [axes.get_images() for axes in squares]


def test_heads_share_a_colour_scale_that_is_white_at_zero(save, monkeypatch):
    correlation = position_correlation(save("tupe_tiny")[0])
    correlation.values[:, :, 0] = 1000  # [CLS] is far from the others
    low, high = images(correlation, monkeypatch)[0][0].get_clim()
    assert low == -high
    assert 0 < (correlation.values[:, 1:, 1:].abs() > high).float().mean() < 0.01
    assert all(image.get_clim() == (low, high) for head in images(correlation, monkeypatch) for image in head)


def test_untied_cls_is_drawn_apart_and_every_value_is_drawn(save, monkeypatch):
    correlation = position_correlation(save("tupe_tiny")[0])
    for values, head in zip(correlation.values.numpy(), images(correlation, monkeypatch)):
        others, column, row, corner = (np.asarray(image.get_array()) for image in head)
        np.testing.assert_array_equal(np.block([[corner, row], [column, others]]), values)
        x0, x1, *_ = head[1].get_extent()
        assert x1 - x0 >= 1
        assert x1 < head[0].get_extent()[0]


def test_the_reset_changes_row_and_column_of_cls_alone(save, tmp_path):
    correlation = position_correlation(save("tupe_tiny")[0])
    torch.testing.assert_close(correlation.before[:, 1:, 1:], correlation.values[:, 1:, 1:])
    assert (correlation.before[:, 0] != correlation.values[:, 0]).all()
    plot_reset(correlation, 2, tmp_path / "reset.svg")
    assert "head 2" in (tmp_path / "reset.svg").read_text()
