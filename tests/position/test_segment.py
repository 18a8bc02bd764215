import torch

from tests.position.contract import drawn
from tupe.position import SegmentAttention, segment_ids
from tupe.position.segment import segment_bias

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
    rows = [[BOS, WORD, EOS, WORD, EOS, PAD], [BOS, WORD, EOS, EOS, WORD, EOS], [BOS, WORD, WORD, EOS, PAD, PAD]]
    expected = [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0] * 6]
    assert segment_ids(torch.tensor(rows), EOS, separators=1).tolist() == expected


def test_attention_is_its_equation():
    term, segments = drawn(SegmentAttention(num_heads=3, num_layers=2)), torch.tensor([[0, 0, 1], [0, 0, 0]]).bool()
    values = term()
    assert torch.equal(values.unflatten(0, (2, 3)), term.weight)  # of all layers
    out = segment_bias(values, segments)
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, out.shape)).tolist():
        assert out[b, h, i, j] == values[h, int(segments[b, i]), int(segments[b, j])]
    assert torch.equal(term.bfloat16()(), term.weight.flatten(0, 1).float())
    assert torch.autograd.gradcheck(lambda v: segment_bias(v, segments), (values.detach().double().requires_grad_(),))
