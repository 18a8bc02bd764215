import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tupe.errors import UserError
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


@pytest.mark.parametrize("separators", [0, 3, None, "2"])
def test_other_numbers_of_separators_are_refused(separators):
    with pytest.raises(UserError, match=r"^separators is .*, but the texts of a pair have 1 or 2 separators"):
        segment_ids(torch.tensor([[BOS, WORD, EOS]]), EOS, separators)


@pytest.mark.parametrize("tokens", [torch.tensor([BOS, WORD, EOS]), [[BOS, WORD, EOS]]])
def test_tokens_that_are_no_batch_are_refused(tokens):
    with pytest.raises(UserError, match=r"^tokens are .*, but must be a tensor \(B, T\): give tokens\[None\] for one"):
        segment_ids(tokens, EOS)
    for numbers in ({"eos": "2"}, {"eos": EOS, "pad": None}):
        with pytest.raises(UserError, match=r"^(eos|pad) is .*, but must be a whole number"):
            segment_ids(torch.tensor([[BOS, WORD, EOS]]), **numbers)


def test_a_third_segment_cannot_be_written():
    numbers = torch.tensor([[0, 1, 2]])
    for term in (SegmentTable(8), SegmentAttention(2)):
        with pytest.raises(UserError, match=r"segments are torch.int64, but must be torch.bool"):
            term(numbers)
        with pytest.raises(UserError, match=r"^segments is \[\[0, 1, 2\]\], but must be a tensor"):
            term(numbers.tolist())
    with pytest.raises(UserError, match=r"^segments are \(3,\), but must be \(B, T\): give segments\[None\]"):
        SegmentAttention(2)(numbers[0].bool())


@pytest.mark.parametrize("layer", [2, -1, "0"])
def test_a_layer_that_there_is_not(layer):
    with pytest.raises(UserError, match=r"^layer is .*, but must be a number from 0 to 1$"):
        SegmentAttention(3, num_layers=2)(torch.tensor([[False, True]]), layer)
