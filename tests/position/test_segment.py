import torch

from tupe.position import segment_ids

BOS, PAD, EOS, WORD = 0, 1, 2, 7


def test_pairs_single_sentences_and_truncated_pairs():
    rows = [
        [BOS, WORD, EOS, EOS, WORD, EOS, PAD],
        [BOS, WORD, EOS, PAD, PAD, PAD, PAD],
        [BOS, WORD, EOS, WORD, WORD, EOS, PAD],  # separators that do not follow each other: sentences of one text
        [BOS, WORD, WORD, WORD, WORD, EOS, EOS],  # the second sentence cut away but for its separator
    ]
    expected = [[0, 0, 0, 1, 1, 1, 1], [0] * 7, [0] * 7, [0, 0, 0, 0, 0, 0, 1]]
    assert segment_ids(torch.tensor(rows), EOS).tolist() == expected


def test_one_separator_as_in_bert():
    rows = [[BOS, WORD, EOS, WORD, EOS, PAD], [BOS, WORD, EOS, EOS, PAD, PAD], [BOS, WORD, WORD, EOS, PAD, PAD]]
    rows += [[BOS, WORD, EOS, WORD, EOS, WORD], [WORD, EOS, WORD, EOS, WORD, EOS]]  # lines of one text
    expected = [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0] * 6, [0] * 6, [0] * 6]
    assert segment_ids(torch.tensor(rows), EOS, separators=1).tolist() == expected
