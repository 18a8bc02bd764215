"""Facts that batches carry for the host: masked positions, numbers of examples, whether there are pairs."""

import pytest
import torch
from fairseq.data import IdDataset, RightPadDataset
from hypothesis import given
from hypothesis import strategies as st

from tests.models.small import small_dictionary
from tupe.data.batches import Batches, MaskedBatches, has_pairs
from tupe.position import segment_ids

BOS, PAD, EOS = 0, 1, 2
WORDS = [[BOS, 9, 8, EOS], [BOS, 7, EOS, EOS, 6, EOS], [BOS, EOS]]


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows, self.sizes, self.supports_prefetch = [torch.tensor(row) for row in rows], [*map(len, rows)], False

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self):
        return len(self.rows)


def batches(kind, source, target=None):
    dictionary = small_dictionary()
    entries = {"id": IdDataset(), "net_input": {"src_tokens": RightPadDataset(Rows(source), pad_idx=PAD)}}
    if target is not None:
        entries["target"] = RightPadDataset(Rows(target), pad_idx=PAD)
    return kind(entries, [[*map(len, source)]], dictionary)


@pytest.mark.parametrize(("rows", "pairs"), [([0], False), ([0, 2], False), ([1], True), ([0, 1, 2], True)])
def test_pairs(rows, pairs):
    data = batches(Batches, WORDS)
    assert data.collater([data[row] for row in rows])["pairs"] is pairs


@given(st.lists(st.lists(st.sampled_from([PAD, EOS, 9]), min_size=5, max_size=5), min_size=1, max_size=3))
def test_pairs_are_what_the_model_takes_for_two_segments(rows):
    tokens = torch.tensor(rows)
    assert has_pairs(tokens, small_dictionary()) == bool(segment_ids(tokens, EOS).any())


def test_no_examples_are_an_empty_batch():
    for kind in (Batches, MaskedBatches):
        assert batches(kind, WORDS, WORDS).collater([]) == {}


@pytest.mark.parametrize("rows", [[0], [1, 0], [2, 0, 1]])
def test_masked_positions_are_those_of_the_targets(rows):
    target = [[BOS, PAD, 8, PAD], [PAD, 7, PAD, EOS, 6, PAD], [PAD, PAD]]
    data = batches(MaskedBatches, WORDS, target)
    batch = data.collater([data[row] for row in rows])
    width = batch["target"].shape[1]
    wanted = [
        (place * width + column, word)
        for place, row in enumerate(rows)
        for column, word in enumerate(target[row])
        if word != PAD
    ]
    assert batch["masked_tokens"].tolist() == [position for position, _ in wanted]
    assert batch["masked_words"].tolist() == [position for position, word in wanted if word not in (BOS, EOS)]
    assert batch["ids"] == rows


def test_a_masked_separator_still_separates():
    """ELECTRA puts it back, and so finds the pair that the masked language model does not see."""
    source = [[BOS, 7, 5, EOS, 6, EOS]]
    data = batches(MaskedBatches, source, [[PAD, PAD, EOS, PAD, PAD, PAD]])
    assert data.collater([data[0]])["pairs"] is True
