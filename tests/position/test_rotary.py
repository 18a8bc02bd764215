"""Rotary positions: the equation, what it does not change, other people's code."""

import pytest
import torch
from torch import nn

from tupe.position import LowRankAbsolute, PositionBias, Rotary, UntiedAbsolute, rotate

WIDTH, LENGTH = 16, 40


@pytest.fixture(params=[-1, 6], ids=["all", "some"])
def rotary(request):
    return Rotary(WIDTH, request.param).double()


@pytest.fixture
def words():
    """Queries and keys in float64, `(n, H, d_h)`."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(LENGTH, 3, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2)]


def logits(query, key):
    return torch.einsum("ihd,jhd->hij", query, key)


def test_products_depend_on_the_distance(rotary, words):
    """`sum_c (q_c k_c + q_c' k_c') cos((j - i) theta_c) + (q_c' k_c - q_c k_c') sin(...)`, and the other columns."""
    query, key = words
    half, width = len(rotary.thetas()), 2 * len(rotary.thetas())
    want = logits(query[..., width:], key[..., width:])
    i, j = torch.meshgrid(*2 * [torch.arange(LENGTH, dtype=torch.float64)], indexing="ij")
    for c, theta in enumerate(rotary.thetas()):
        (q, q_), (k, k_) = ((x[..., c].t(), x[..., c + half].t()) for x in (query, key))  # (H, n)
        same = q[:, :, None] * k[:, None] + q_[:, :, None] * k_[:, None]
        other = q_[:, :, None] * k[:, None] - q[:, :, None] * k_[:, None]
        want = want + same * ((j - i) * theta).cos() + other * ((j - i) * theta).sin()
    rotation = rotary(LENGTH)
    torch.testing.assert_close(logits(rotate(query, rotation), rotate(key, rotation)), want, rtol=0, atol=1e-12)
    later = rotary(LENGTH, query_offset=1000)
    torch.testing.assert_close(logits(rotate(query, later), rotate(key, later)), want, rtol=0, atol=1e-10)


def test_what_stays(rotary, words):
    query, _ = words
    turned, width = rotate(query, rotary(LENGTH)), 2 * len(rotary.thetas())
    torch.testing.assert_close(turned.norm(dim=-1), query.norm(dim=-1))
    assert torch.equal(turned[0], query[0])  # [CLS]
    assert torch.equal(turned[..., width:], query[..., width:])
    assert not torch.allclose(turned[1:, :, 0], query[1:, :, 0])


def test_a_slice_is_that_of_the_whole(rotary):
    torch.testing.assert_close(rotary(7, query_offset=11), rotary(LENGTH)[:, 11:18], rtol=0, atol=0)


def test_base_1_turns_all_planes_alike():
    assert Rotary(8, base=1.0).thetas().tolist() == [1.0] * 4


def test_neighbours_are_halves_after_a_permutation(words):
    """The paper turns the columns `2c` and `2c + 1`."""
    rotation, (query, key) = Rotary(WIDTH).double()(LENGTH), words
    angles = torch.arange(LENGTH)[:, None, None] * Rotary(WIDTH).double().thetas()

    def papers(x):
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.exp(1j * angles)).flatten(-2)

    columns = [*range(0, WIDTH, 2), *range(1, WIDTH, 2)]
    ours = logits(*(rotate(x[..., columns], rotation) for x in (query, key)))
    torch.testing.assert_close(ours, logits(papers(query), papers(key)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dims", [-1, 6])
def test_gradients(dims):
    x, rotation = torch.randn(2, 5, 3, WIDTH, dtype=torch.float64, requires_grad=True), Rotary(WIDTH, dims).double()(5)
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, rotation), x)
    assert torch.autograd.gradcheck(lambda x: rotate(x, rotation), x, check_batched_grad=True)


@pytest.mark.parametrize(("kind", "base"), [("sliding_attention", 10_000.0), ("full_attention", 160_000.0)])
def test_modernberts_rotation(kind, base):
    theirs = pytest.importorskip("transformers.models.modernbert.modeling_modernbert")
    from transformers import ModernBertConfig

    query, key = torch.randn(2, 2, 3, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0))  # B H n d_h
    embedding = theirs.ModernBertRotaryEmbedding(ModernBertConfig(hidden_size=3 * WIDTH, num_attention_heads=3))
    cos, sin = embedding(query, torch.arange(LENGTH)[None], kind)
    rotation = Rotary(WIDTH, base=base)(LENGTH)
    for x, want in zip((query, key), theirs.apply_rotary_pos_emb(query, key, cos, sin)):
        assert (rotate(x.transpose(1, 2), rotation).transpose(1, 2) - want).abs().max() < 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_angles_stay_float32(dtype):
    """In bfloat16 the positions beyond 256 would not be told apart; the result is rounded once."""
    position = PositionBias(LowRankAbsolute(512, 2, 3), rotation=Rotary(WIDTH)).eval()
    want = position(512).rotation
    for half in (position, position.to(dtype)):
        terms = half(512, dtype)
        assert (terms.bias.dtype, terms.rotation.dtype) == (dtype, torch.float32)
        assert torch.equal(terms.rotation, want)
    x = torch.randn(512, 3, WIDTH).to(dtype)
    torch.testing.assert_close(rotate(x, want), rotate(x.double(), want.double()).to(dtype), rtol=0.01, atol=0.01)


@torch.no_grad()
def test_handed_out_sliced_and_cached():
    position = PositionBias(rotation=Rotary(WIDTH)).eval()
    whole = position(LENGTH)
    assert whole.bias is None
    assert position(5).rotation.data_ptr() == whole.rotation.data_ptr()
    last = position(1, query_offset=LENGTH - 1)  # a step of decoding: of the new position alone
    torch.testing.assert_close(last.rotation, whole.rotation[:, -1:], rtol=0, atol=0)
    assert all(torch.equal(layer.rotation, whole.rotation) for layer in whole.split(3))
    assert not position.state_dict()
    moved = PositionBias(rotation=Rotary(WIDTH)).to("meta").to_empty(device="cpu")
    assert torch.equal(moved(LENGTH).rotation, whole.rotation)


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.position = PositionBias(UntiedAbsolute(64, 8, 2), rotation=Rotary(WIDTH))

    def forward(self, x):
        terms = self.position(x.shape[0])
        return rotate(x, terms.rotation), terms.bias


def test_compiles_and_exports():
    module, sizes = Turned().eval(), ({0: torch.export.Dim("n", min=2, max=64)},)
    torch._dynamo.reset()
    exported = torch.export.export(module, (torch.randn(9, 3, WIDTH),), dynamic_shapes=sizes).module()
    compiled = torch.compile(module, dynamic=True, fullgraph=True, backend="eager")
    for length in (5, 9, 64):
        x = torch.randn(length, 3, WIDTH)
        for either in (exported, compiled):
            torch.testing.assert_close(either(x), module(x))


def test_angles_that_learn_get_a_gradient(words):
    rotation = Rotary(WIDTH).double()(LENGTH).requires_grad_()
    weights = torch.randn_like(words[0])
    (found,) = torch.autograd.grad((rotate(words[0], rotation) * weights).sum(), rotation)
    wanted = torch.stack((words[0] * weights, words[0].roll(WIDTH // 2, -1) * weights))
    torch.testing.assert_close(found, wanted.sum(2))
