"""The sum, its cache, and its independence of fairseq."""

import subprocess
import sys
from unittest.mock import patch

import pytest
import torch

from tupe.errors import UserError
from tupe.position import (
    AlibiRelative,
    BucketedRelative,
    DisentangledRelative,
    FireRelative,
    FreeAbsolute,
    KerpleRelative,
    LowRankAbsolute,
    ParametricRelative,
    PositionBias,
    PositionTable,
    PositionTerms,
    RelativeEmbeddings,
    RelativeTerm,
    Reset,
    Rotary,
    ShawRelative,
    UnbinnedRelative,
    UntiedAbsolute,
)  # fmt: skip


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


@pytest.mark.parametrize(
    "build",
    [
        lambda: PositionBias(None, BucketedRelative(2), Reset(2, 8)),
        lambda: PositionBias(LowRankAbsolute(4, 8, 2), None, Reset(2, 8)),
        lambda: PositionBias(UntiedAbsolute(4, 8, 2), BucketedRelative(2), Reset(2, 8, "release")),
        lambda: PositionBias(UntiedAbsolute(4, 8, 2), None, Reset(2, 8, "release", relative=True)),
        lambda: PositionBias(None, None, Reset(2, 8)),
        lambda: PositionBias(UntiedAbsolute(4, 8, 2), None, Reset(2, 8), cross=True),
    ],
)
def test_a_reset_that_does_not_fit_the_terms(build):
    with pytest.raises(UserError, match="reset"):
        build()


def test_an_absolute_term_in_the_place_of_the_relative_one():
    with pytest.raises(UserError, match=r"^UntiedAbsolute is an absolute term: give it before the relative one"):
        PositionBias(BucketedRelative(2), UntiedAbsolute(4, 8, 2))


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


def test_works_without_fairseq():
    code = "import sys, tupe.position, tupe.attention; sys.exit(any(m.split('.')[0] == 'fairseq' for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_models_without_their_packages_say_what_is_missing():
    code = "import sys; sys.modules['numpy'] = None; import tupe.models"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = "ModuleNotFoundError: the models need numpy, which is not installed: install tupe without --no-deps"
    assert done.stderr.splitlines()[-1].startswith(said) and "During handling" not in done.stderr


@pytest.mark.parametrize("structured", [False, True])
def test_terms_that_cannot_be_split(structured):
    terms = PositionBias(UntiedAbsolute(8, 8, 4), BucketedRelative(4))(8, structured=structured)
    for layers in (3, 0):
        with pytest.raises(UserError, match=f"^terms of 4 heads cannot be split into {layers} layers: build"):
            terms.split(layers)
    with pytest.raises(UserError, match=r"^num_layers is '2', but must be a whole number, 0 or more$"):
        terms.split("2")


@pytest.mark.parametrize(
    "term",
    [
        UntiedAbsolute(8, 8, 2),
        LowRankAbsolute(8, 4, 2),
        FreeAbsolute(8, 2),
        UnbinnedRelative(2, 8),
        AlibiRelative(2),
        KerpleRelative(2),
        FireRelative(2, 8),
        ParametricRelative(8, 2, 4),
    ],
)
def test_terms_of_other_heads(term):
    """One head is that of all; a term of one's own that does not say its number is refused by `forward`."""
    side, other = ("relative", "absolute") if isinstance(term, RelativeTerm) else ("absolute", "relative")
    for heads in (1, 2):
        others = {other: BucketedRelative(heads)} if other == "relative" else {other: FreeAbsolute(8, heads)}
        assert PositionBias(**{side: term, **others}, reset=Reset(2))(4).bias.shape == (2, 4, 4)
    for others in ({other: BucketedRelative(3) if other == "relative" else FreeAbsolute(8, 3)}, {"reset": Reset(3)}):
        with pytest.raises(UserError, match=r"^the terms have \d and \d heads: build the absolute"):
            PositionBias(**{side: term, **others})


@pytest.mark.parametrize("structured", [False, True])
def test_terms_of_other_heads_that_do_not_say_so(structured):
    terms = UntiedAbsolute(8, 8, 2), BucketedRelative(3)
    del terms[1].num_heads
    with pytest.raises(UserError, match=r"^the terms have 2 and 3 heads: build the absolute"):
        PositionBias(*terms)(4, structured=structured)


@pytest.mark.parametrize("reset", [Reset(4, 8), Reset(2, 12)])
def test_a_reset_of_another_size_than_the_untied_term(reset):
    with pytest.raises(UserError, match=r"^Reset has . heads and vectors of width \d+, .*: give Reset\(2, 8\)$"):
        PositionBias(UntiedAbsolute(4, 8, 2), None, reset)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"absolute": "untied"}, "absolute= of PositionBias is 'untied', but must be a position term, such as"),
        ({"relative": BucketedRelative}, "relative= of PositionBias is <class .*, but must be a position term"),
        ({"absolute": torch.nn.Linear(2, 2)}, "absolute= of PositionBias is a Linear, whose forward does not take"),
        ({"relative": Rotary(4)}, "relative= of PositionBias is a Rotary, which .*: give it as rotation="),
        ({"reset": "paper"}, r"reset= of PositionBias is 'paper', but must be a Reset\(\.\.\.\)"),
        ({"rotation": Reset(2)}, "rotation= of PositionBias is a Reset, but must be a Rotary"),
        ({"embeddings": 3}, "embeddings= of PositionBias is 3, but must be a RelativeEmbeddings"),
        (
            {"relative": ShawRelative(4)},
            "relative= of PositionBias is a ShawRelative, which asks the words of each lay",
        ),
        ({"relative": DisentangledRelative()}, "relative= of PositionBias is a DisentangledRelative, which asks"),
    ],
)
def test_a_part_of_another_kind(parts, said):
    with pytest.raises(UserError, match=f"^{said}"):
        PositionBias(**{"relative": BucketedRelative(2), **parts})


@pytest.mark.parametrize("size", [0, -1])  # `test_arguments.py` has other types
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda n: UntiedAbsolute(n, 8, 2), "max_positions"),
        (lambda n: UntiedAbsolute(16, n, 2), "embed_dim"),
        (lambda n: LowRankAbsolute(16, 4, n), "num_heads"),
        (lambda n: LowRankAbsolute(16, n, 2), r"rank of LowRankAbsolute \(a model's position_rank\)"),
        (BucketedRelative, "num_heads"),
        (lambda n: BucketedRelative(2, n), "num_buckets of BucketedRelative .*"),
        (lambda n: BucketedRelative(2, 32, n), "max_distance of BucketedRelative .*"),
        (Reset, "num_heads"),
    ],
)
def test_a_size_that_cannot_be(build, name, size):
    with pytest.raises(UserError, match=f"^{name} is {size!r}, but "):
        build(size)


def test_numbers_that_cannot_be():
    position = PositionBias(UntiedAbsolute(8, 8, 2))
    wrong = (
        (-1, {}, "length is -1"),
        (2.5, {}, "length is 2.5"),
        (4, {"query_offset": -1}, "query_offset is -1"),
        ("4", {}, "length is '4'"),
        (torch.ones(2, 4), {}, "length is a tens"),
        (torch.tensor(2.5), {}, "length is a tens"),
    )
    for length, more, said in wrong:
        with pytest.raises(UserError, match=f"^{said}.*, but must be a whole number, 0 or more$"):
            position(length, **more)
    with pytest.raises(UserError, match=r"^num_terms is -3, but a logit sums 1"):
        PositionBias(UntiedAbsolute(8, 8, 2), num_terms=-3)
    with pytest.raises(UserError, match=r"^dtype is torch.int64, but the terms are floating"):
        position(4, torch.int64)
    with pytest.raises(UserError, match=r"^structured is 'no', but must be True or False$"):
        position(4, structured="no")
    for term in (PositionTable(8, 4), RelativeEmbeddings(4), Rotary(4)):
        for length in (-1, "4", 2.5):
            with pytest.raises(UserError, match=r"^length is .*, but must be a whole number, 0 or more$"):
                term(length)
    with pytest.raises(UserError, match=r"^theta is made of vectors, which the untied absolute term projects"):
        Reset(2, 8)()
    with pytest.raises(UserError, match=r"^head_dim is 0, but must be a whole number, 1 or more$"):
        position.scale(0)
    with pytest.raises(UserError, match=r"^length is 0, but must be a whole number, 1 or more$"):
        PositionBias(BucketedRelative(2))(0)


def test_terms_on_the_meta_device_have_shapes():
    position = PositionBias(UntiedAbsolute(16, 32, 4), BucketedRelative(4), Reset(4, 32)).to("meta")
    assert position(9).bias.is_meta and position(9).bias.shape == (4, 9, 9)
