"""The position correlation of a checkpoint is what its model adds to the logits, and the picture shows it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

from tupe.analysis import position
from tupe.analysis.position import plot_position, position_correlation
from tupe.errors import UserError
from tupe.models.config import CONFIGS
from tupe.models.tupe import TupeModel, as_namespace

SMALL = {
    "encoder_layers": 2,
    "encoder_embed_dim": 24,
    "encoder_ffn_embed_dim": 48,
    "encoder_attention_heads": 3,
}


@pytest.fixture
def save(tmp_path):
    """`save("tupe_tiny")` writes a checkpoint as fairseq does and returns its path, with the model's position terms."""

    def save(name, **fields):
        torch.manual_seed(0)
        config = CONFIGS[name](**{**SMALL, **fields})
        task = SimpleNamespace(source_dictionary=Dictionary(), max_positions=lambda: 20)
        model = TupeModel.build_model(config, task)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        cfg = {"model": {**vars(as_namespace(config)), "_name": name}, "task": {"tokens_per_sample": 20}}
        torch.save({"cfg": cfg, "model": model.state_dict()}, tmp_path / "checkpoint.pt")
        return tmp_path / "checkpoint.pt", model.eval().encoder.sentence_encoder.position_bias

    return save


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
    checkpoint, bias = save(name, **fields)
    for length in (None, 7):
        correlation = position_correlation(checkpoint, length)
        torch.testing.assert_close(correlation.values, bias(length or 20).bias.detach())
        assert correlation.names == names
    assert correlation.reset == (name == "tupe_tiny")


def test_untied_positions_of_bert_ad(save):
    checkpoint, bias = save("bert_ad_tiny")
    table = bias.absolute.layer_norm(bias.absolute.table.weight)
    query, key = (u(table).view(20, 3, 8).transpose(0, 1) for u in (bias.absolute.query, bias.absolute.key))
    expected = query @ key.transpose(1, 2) / (4 * 8) ** 0.5
    torch.testing.assert_close(position_correlation(checkpoint).values, expected.detach())


def test_positions_at_the_input_have_no_picture(save):
    with pytest.raises(UserError, match=r"bert_a_tiny.* no position correlation"):
        position_correlation(save("bert_a_tiny")[0])


def test_longer_than_the_model_is_refused(save):
    with pytest.raises(UserError, match=r"21 tokens.* 20"):
        position_correlation(save("tupe_tiny")[0], 21)


@pytest.mark.parametrize("length", [-3, 0, 1])
def test_fewer_than_two_positions_are_refused(length, save):
    with pytest.raises(UserError, match=rf"{length} position.* 2 or more"):
        position_correlation(save("tupe_tiny")[0], length)


def test_other_models_are_refused(tmp_path):
    torch.save({"cfg": {"model": {"_name": "roberta"}}, "model": {}}, tmp_path / "other.pt")
    with pytest.raises(UserError, match=r"'roberta'.* none of ours"):
        position_correlation(tmp_path / "other.pt")


def images(correlation, monkeypatch):
    """The pictures in each square of the figure."""
    drawn = []
    monkeypatch.setattr(position, "save_figure", lambda figure, output: drawn.append(figure))
    plot_position(correlation, "unused.png")
    squares = [axes for axes in drawn[0].axes if axes.get_title()]
    assert [axes.get_title().partition(", θ")[0] for axes in squares] == correlation.names
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


def test_tied_cls_is_one_picture(save, monkeypatch):
    correlation = position_correlation(save("tupe_a_tie_cls_tiny")[0])
    for values, head in zip(correlation.values.numpy(), images(correlation, monkeypatch)):
        (image,) = head
        np.testing.assert_array_equal(image.get_array(), values)


def test_five_heads_leave_the_rest_of_the_grid_empty(save, monkeypatch):
    fields = {"encoder_attention_heads": 5, "encoder_embed_dim": 20}
    assert len(images(position_correlation(save("tupe_tiny", **fields)[0]), monkeypatch)) == 5
