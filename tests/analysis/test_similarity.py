"""Cosines of position vectors, from every kind of table."""

from argparse import Namespace

import pytest
import torch

from tupe.analysis.similarity import has_vectors, plot_similarity, position_similarity


@pytest.mark.parametrize(
    ("name", "fields", "names"),
    [
        ("bert_a_tiny", {}, ["added to the words"]),
        ("tupe_tiny", {}, ["untied"]),
        ("diet_abs_tiny", {}, ["low rank, query", "low rank, key"]),
        ("diet_abs_tiny", {"absolute": "low_rank_input"}, ["added to the words", "low rank, query", "low rank, key"]),
    ],
)
def test_every_table(name, fields, names, save, tmp_path):
    similarity = position_similarity(save(name, **fields)[0])
    assert similarity.names == names
    assert similarity.values.shape == (len(names), 20, 20)
    torch.testing.assert_close(similarity.values.diagonal(dim1=1, dim2=2), torch.ones(len(names), 20))
    plot_similarity(similarity, tmp_path / "a.svg")
    assert all(part in (tmp_path / "a.svg").read_text() for part in names)


def test_a_term_of_ones_own_has_none_that_are_known():
    """The page says so, and goes on."""
    assert not has_vectors(Namespace(absolute="mine"))


def test_a_linformers_keys_are_no_positions(save):
    assert position_similarity(save("diet_abs_lin_tiny")[0]).names == ["low rank, query"]


def test_values_are_cosines(save):
    checkpoint, encoder = save("bert_a_tiny")
    p = encoder.input_positions.weight.detach()
    expected = torch.cosine_similarity(p[3], p[5], dim=0)
    torch.testing.assert_close(position_similarity(checkpoint).values[0, 3, 5], expected)
