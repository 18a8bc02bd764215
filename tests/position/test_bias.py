"""The sum and its cache."""

from unittest.mock import patch

import pytest
import torch

from tupe.position import BucketedRelative, LowRankAbsolute, PositionBias, PositionTerms, Reset, UntiedAbsolute
from tupe.util import UserError


def tupe_r(convention="paper"):
    torch.manual_seed(0)
    return PositionBias(UntiedAbsolute(16, 12, 3), BucketedRelative(3), Reset(3, 12, convention, relative=True))


@pytest.mark.parametrize("convention", ["paper", "release"])
def test_tupe_r_is_the_reset_of_the_sum(convention):
    position = tupe_r(convention)
    bias = position(7).bias
    inner = position.absolute(7) + position.relative(7)
    theta = position.reset(position.absolute)
    torch.testing.assert_close(bias[:, 1:, 1:], inner[:, 1:, 1:])
    torch.testing.assert_close(bias[:, 0], theta[0, :, None].expand(-1, 7))
    torch.testing.assert_close(bias[:, 1:, 0], theta[1, :, None].expand(-1, 6))


def test_nothing_adds_nothing():
    assert PositionBias()(5) == PositionTerms(None, None, None, None)


def test_num_terms_is_the_number_of_products():
    absolute = UntiedAbsolute(4, 8, 2)
    assert PositionBias().num_terms == 1
    assert PositionBias(absolute).num_terms == 2
    assert PositionBias(absolute, cross=True).num_terms == 4


@pytest.mark.parametrize(
    ("terms", "products"),
    [({}, 1), ({"relative": BucketedRelative(2)}, 1), ({"absolute": UntiedAbsolute(4, 8, 2)}, 2),
     ({"absolute": UntiedAbsolute(4, 8, 2), "num_terms": 3}, 3)],
)  # fmt: skip
def test_scale_is_one_over_the_root_of_the_products_times_the_width(terms, products):
    assert PositionBias(**terms).scale(16) == pytest.approx(1 / (products * 16) ** 0.5)


def test_cross_hands_out_factors():
    absolute = UntiedAbsolute(9, 8, 2, num_terms=4)
    terms = PositionBias(absolute, cross=True)(5)
    assert terms.bias is None
    torch.testing.assert_close(terms.query @ terms.key.transpose(1, 2) * absolute.scale, absolute(5))


def test_layers_that_do_not_share_are_more_heads():
    """`L H` heads at once are the `H` heads of each of `L` positions' own."""
    torch.manual_seed(0)
    many = PositionBias(UntiedAbsolute(9, 8, 6, 4, num_terms=4), cross=True)
    bias = PositionBias(BucketedRelative(6))
    for layer, terms in enumerate(many(5).split(3)):
        for part, whole in zip(terms[1:3], many(5)[1:3]):
            torch.testing.assert_close(part, whole[2 * layer : 2 * layer + 2], rtol=0, atol=0)
        assert terms.bias is terms.rotation is None
        own = bias(5).split(3)[layer]
        torch.testing.assert_close(own.bias, bias(5).bias[2 * layer : 2 * layer + 2], rtol=0, atol=0)


class TestCache:
    def calls(self, position, *lengths):
        with patch.object(position, "compute", wraps=position.compute) as compute:
            terms = [position(length) for length in lengths]
        return compute.call_count, terms

    def test_evaluation_computes_once_and_slices(self):
        position = tupe_r().eval()
        with torch.no_grad():
            count, terms = self.calls(position, 9, 9, 4, 1, 9)
            assert count == 1
            torch.testing.assert_close(terms[2].bias, position.compute(4).bias)
            assert self.calls(position, 12)[0] == 0  # made for 16
            torch.testing.assert_close(position(12).bias, position.compute(12).bias)

    def test_rising_lengths_compute_few_times(self):
        position = tupe_r().eval()
        with torch.no_grad():
            assert self.calls(position, *range(1, 17))[0] == 5
            with pytest.raises(UserError, match="17"):
                position(17)

    def test_types_do_not_evict_each_other(self):
        position = tupe_r().eval()
        with torch.no_grad(), patch.object(position, "compute", wraps=position.compute) as compute:
            for _ in range(3):
                position(9), position(9, torch.bfloat16), position(9, structured=True)
            assert compute.call_count == 3

    def test_training_and_gradients_compute_each_time(self):
        position = tupe_r()
        assert self.calls(position, 5, 5)[0] == 2
        position.eval()
        count, terms = self.calls(position, 5, 5)
        assert count == 2
        assert terms[1].bias.requires_grad

    @pytest.mark.parametrize(
        "change",
        [
            lambda p: p.relative.weight.add_(1),
            lambda p: torch.optim.SGD(p.parameters(), lr=0.1).step(),
            lambda p: (torch.optim.AdamW(p.parameters(), lr=0.1, fused=True).step(), p.eval()),
            lambda p: p.load_state_dict({name: t + 1 for name, t in p.state_dict().items()}),
            lambda p: (p.train(), p.relative.weight.data.add_(1), p.eval()),
            lambda p: (p.relative.weight.data.add_(1), p.clear_cache()),
            lambda p: p.double(),
        ],
    )
    def test_changed_parameters_are_seen(self, change):
        position = tupe_r().eval()
        for parameter in position.parameters():
            parameter.grad = torch.ones_like(parameter)
        with torch.no_grad():
            before = position(5, torch.float64).bias
            change(position)
            after = position(5, torch.float64).bias
            torch.testing.assert_close(after, position.compute(5).bias.double())
        assert not torch.equal(before, after) or position.relative.weight.dtype == torch.float64

    def test_each_dtype_is_rounded_once(self):
        position = tupe_r().eval()
        with torch.no_grad():
            half = position(5, torch.bfloat16).bias
            torch.testing.assert_close(half, position(5).bias.bfloat16(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_parameters_give_float32_accuracy(dtype):
    """Whatever the model's precision and autocast, the term is computed in float32 and rounded once."""
    position = tupe_r().to(dtype)
    exact = tupe_r().double()
    exact.load_state_dict(position.state_dict())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        bias = position(16).bias
    expected = exact(16, torch.float64).bias
    assert bias.dtype == torch.float32
    assert (bias - expected).norm() < 1e-6 * expected.norm()


def test_terms_that_only_broadcast_or_have_another_scale():
    """One head is that of all."""
    untied = UntiedAbsolute(8, 8, 2)
    for heads in (1, 2):
        assert PositionBias(untied, BucketedRelative(heads), Reset(2))(4).bias.shape == (2, 4, 4)
    for wrong in (
        (untied, BucketedRelative(3)),
        (untied, None, Reset(4, 8)),
        (BucketedRelative(2), untied),
        (None, None, Reset(2)),
        (LowRankAbsolute(8, 4, 2, num_keys=3), None, Reset(2)),
    ):
        with pytest.raises(AssertionError):
            PositionBias(*wrong)
    with pytest.raises(AssertionError):
        PositionBias(untied, None, Reset(2, 8), cross=True)


def test_terms_on_the_meta_device_have_shapes():
    position = PositionBias(UntiedAbsolute(16, 32, 4), BucketedRelative(4), Reset(4, 32)).to("meta")
    assert position(9).bias.is_meta and position(9).bias.shape == (4, 9, 9)
