import torch
from hypothesis import given
from hypothesis import strategies as st

from tupe.position import SegmentAttention, SegmentTable, segment_ids

BOS, PAD, EOS, WORD = 0, 1, 2, 7


def test_a_pair():
    tokens = [BOS, WORD, WORD, EOS, EOS, WORD, EOS, PAD, PAD]
    assert segment_ids(torch.tensor([tokens]), EOS).tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 1]]


def test_single_sentences_and_truncated_pairs():
    rows = [
        [BOS, WORD, WORD, WORD, EOS],
        [BOS, WORD, EOS, PAD, PAD],
        [BOS, WORD, EOS, WORD, EOS],  # separators that do not follow each other: sentences of one text
        [BOS, WORD, WORD, EOS, EOS],  # the second sentence cut away but for its separator
        [BOS, WORD, WORD, WORD, WORD],
    ]
    expected = [[0] * 5, [0] * 5, [0] * 5, [0, 0, 0, 0, 1], [0] * 5]
    assert segment_ids(torch.tensor(rows), EOS).tolist() == expected


def test_one_separator_as_in_bert():
    rows = [[BOS, WORD, EOS, WORD, EOS, PAD], [BOS, WORD, EOS, EOS, WORD, EOS], [BOS, WORD, WORD, EOS, PAD, PAD]]
    expected = [[0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1], [0] * 6]
    assert segment_ids(torch.tensor(rows), EOS, separators=1).tolist() == expected


@given(st.lists(st.lists(st.sampled_from([EOS, WORD]), min_size=6, max_size=6), min_size=1, max_size=4))
def test_token_by_token(rows):
    for row, segments in zip(rows, segment_ids(torch.tensor(rows), EOS).tolist()):
        second = False
        for i, segment in enumerate(segments):
            second = second or (i > 0 and row[i - 1] == row[i] == EOS)
            assert segment == second


def test_attention_is_its_equation():
    term = SegmentAttention(num_heads=3, num_layers=2)
    segments = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]).bool()
    for layer in range(2):
        out = term(segments, layer)
        assert out.shape == (2, 3, 4, 4)
        for b, h, i, j in torch.cartesian_prod(*map(torch.arange, out.shape)).tolist():
            assert out[b, h, i, j] == term.weight[layer, h, int(segments[b, i]), int(segments[b, j])]


def test_table_is_its_rows():
    term = SegmentTable(5)
    segments = torch.tensor([[0, 1, 1]]).bool()
    torch.testing.assert_close(term(segments)[0], term.weight[[0, 1, 1]])


def test_gradients():
    term = SegmentAttention(2).double()
    segments = torch.tensor([[0, 1, 1], [0, 0, 1]]).bool()
    assert torch.autograd.gradcheck(
        lambda weight: torch.func.functional_call(term, {"weight": weight}, (segments,)), (term.weight,)
    )
