"""Arguments of the terms: each is checked by the type that its annotation says."""

import inspect
import math

import pytest
import torch

from tupe import position
from tupe.errors import UserError

SIZES = {"max_positions": 16, "embed_dim": 32, "num_heads": 4, "head_dim": 8, "num_keys": 8, "rank": 4}
TERMS = [term for term in vars(position).values() if inspect.isclass(term) and hasattr(term, "register_buffer")]
TERMS = [term for term in TERMS if term.__name__ not in ("RelativeTerm", "DisentangledRelative")]
WRONG = {
    int: ("4", 2.5, True, [4], torch.ones(2, 4)),
    float: ("4", math.nan, True),
    bool: ("no", 1, None),
    str: (3, ["none"]),
}
CASES = [
    (term, name, value)
    for term in TERMS
    for name, parameter in inspect.signature(term).parameters.items()
    for kind, values in WRONG.items()
    if kind in (parameter.annotation, *getattr(parameter.annotation, "__args__", ()))
    for value in values
]


@pytest.mark.parametrize("term", TERMS)
def test_types_of_arguments(term):
    needed = [name for name, p in inspect.signature(term).parameters.items() if name in SIZES and p.default is p.empty]
    needed += {"RelativeBias": ["num_rows"], "UntiedTwoSided": ["num_heads"]}.get(term.__name__, [])
    sizes = {name: SIZES.get(name, 3) for name in needed}
    term(**sizes)
    cases = [(name, value) for other, name, value in CASES if other is term]
    assert cases
    for name, value in cases:
        with pytest.raises(UserError, match=rf"^{name} of {term.__name__} is .*, but must be "):
            term(**{**sizes, name: value})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: position.ShawRelative(0), "head_dim is 0"),
        (lambda: position.ParametricRelative(32, 4, -1), "head_dim is -1"),
        (lambda: position.LowRankAbsolute(16, 4, 4, num_keys=0), "num_keys is 0"),
        (lambda: position.UntiedTwoSided(16, -2, 32, 4), "num_keys is -2"),
        (lambda: position.UntiedAbsolute(16, 32, 4, head_dim=-8), "head_dim is -8"),
        (lambda: position.UntiedAbsolute(16, 32, 4, num_terms=0), "num_terms is 0"),
        (lambda: position.UntiedAbsolute(16, 32, 4, layer_norm_eps=-1.0), "layer_norm_eps is -1.0"),
        (lambda: position.RelativeEmbeddings(0), "embed_dim is 0"),
        (lambda: position.RelativeEmbeddings(8, num_buckets=-4), "num_buckets of RelativeEmbeddings .* is -4"),
        (lambda: position.RelativeEmbeddings(8, layer_norm_eps=-1.0), "layer_norm_eps is -1.0"),
        (lambda: position.BucketedRelative(4, 1), r"num_buckets of .* \(a model's relative_buckets\) is 1"),
        (lambda: position.BucketedRelative(4, 32, 8), "max_distance of BucketedRelative .* is 8, .* greater than 8"),
        (lambda: position.RelativeBias(0, 4), "num_rows is 0"),
        (lambda: position.AlibiRelative(4, layer_heads=3), "layer_heads is 3, which does not divide num_heads=4"),
        (lambda: position.fit_positions(torch.ones(2), "weight", 0), r"fit_positions .* got \('weight', 0\) of Tensor"),
        (lambda: position.fit_positions(torch.nn.Linear(2, 2), "wait", 0), r"fit_positions .* got \('wait', 0\) of"),
        (lambda: position.fit_positions(torch.nn.Linear(2, 2), "weight", 2), r"fit_positions .* \('weight', 2\) of"),
    ],
)
def test_numbers_that_cannot_be(make, said):
    with pytest.raises(UserError, match=f"^{said}"):
        make()
