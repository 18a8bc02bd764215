"""The position correlation of a checkpoint is what its model adds to the logits; vectors and segments are its own."""

import pytest
import torch

from tupe.analysis.logits import layer_logits
from tupe.analysis.position import position_correlation, position_maps, reset_maps, similarity_maps

LOW_RANK = ["low rank, query", "low rank, key"]


@pytest.mark.parametrize(
    ("name", "fields", "first", "number"),
    [
        ("tupe_tiny", {}, "head 1", 3),
        ("bert_r_tiny", {"sharing": "head"}, "layer 1", 2),
        ("diet_rel_tiny", {}, "layer 1, head 1", 6),
    ],
)
def test_who_shares(name, fields, first, number, made):
    found = position_correlation(made(name, **fields), 7)
    assert (found.names[0], len(found.names), *found.values.shape) == (first, number, number, 7, 7)
    assert found.reset == (name == "tupe_tiny")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("bert_ad_tiny", {}),
        ("bert_ad_tiny", {"content_terms": 1}),
        ("bert_ad_tiny", {"relative": "bucketed"}),
        ("tupe_tiny", {"content_terms": 1}),
        ("tupe_tiny", {"absolute": "free"}),
    ],
)
def test_values_are_what_is_left_of_the_logits_without_words(name, fields, made):
    encoder = made(name, **fields)
    values = position_correlation(encoder, 7).values.double()
    for layer in encoder.sentence_encoder.layers:
        for parameter in layer.self_attn.qkv_proj.parameters():
            torch.nn.init.zeros_(parameter)
    logits = layer_logits(encoder, torch.tensor([[0, 3, 3, 2, 3, 3, 2]]))[0][0]
    torch.testing.assert_close(values, logits, rtol=1e-4, atol=1e-5)


def test_the_reset_changes_row_and_column_of_cls_alone(made):
    encoder = made("tupe_tiny")
    before, after = (position_correlation(encoder, tied=tied).values for tied in (True, False))
    torch.testing.assert_close(before[:, 1:, 1:], after[:, 1:, 1:])
    assert (before[:, 0] != after[:, 0]).all()
    torch.testing.assert_close(reset_maps(encoder).values[2:4], torch.stack([before[1], after[1]]))
    assert position_maps(encoder).names[1].endswith(f"θ₂ = {after[1, 1, 0]:.1f}")


@pytest.mark.parametrize(
    ("name", "fields", "names"),
    [
        ("bert_a_tiny", {}, ["added to the embeddings"]),
        ("tupe_tiny", {}, ["untied"]),
        ("diet_abs_tiny", {"absolute": "low_rank_input"}, ["added to the embeddings", *LOW_RANK]),
        ("diet_abs_lin_tiny", {}, ["low rank, query"]),  # the keys of a Linformer are not positions
    ],
)
def test_similarities_are_cosines_of_every_table(name, fields, names, made):
    encoder = made(name, **fields)
    similarity = similarity_maps(encoder)
    assert similarity.names == names
    torch.testing.assert_close(similarity.values.diagonal(dim1=1, dim2=2), torch.ones(len(names), 20))
    if name == "bert_a_tiny":
        p = encoder.sentence_encoder.input_positions.weight.detach()
        torch.testing.assert_close(similarity.values[0, 3, 5], torch.cosine_similarity(p[3], p[5], dim=0))
