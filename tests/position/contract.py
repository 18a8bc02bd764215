"""What `PositionBias`, its cache, 16-bit models and meta devices rely on in a term, for tests of terms."""

import copy

import torch
from torch.func import functional_call

from tupe.position import PositionBias

LENGTH = 12


def drawn(module):
    """`module` with parameters far from their small initial values, so that a wrong term shows."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def on_meta(build, state):
    """What `build()` makes on the meta device, given memory and this state."""
    with torch.device("meta"):
        module = build()
    module.to_empty(device="cpu").load_state_dict(state)
    return module


def check_term(kind, build):
    """Assert that what `build()` makes, an `absolute` or a `relative` term, does what it must."""
    term = drawn(build())
    distance = torch.arange(1 - LENGTH, LENGTH)
    if kind == "relative":
        parts = [(term(distance)[:, 3:8], term(distance[3:8]))]
    else:
        parts = [(whole[:, :5], part) for whole, part in zip(term(LENGTH), term(5))]
        parts = [(whole[..., : part.shape[-1]], part) for whole, part in parts]
    for whole, part in parts:  # each distance, or position, by itself
        torch.testing.assert_close(part, whole)

    bias = PositionBias(**{kind: term})(LENGTH).bias
    assert bias.shape[1:] == (LENGTH, LENGTH) and bias.dtype == torch.float32 and bias.isfinite().all()
    made = on_meta(lambda: PositionBias(**{kind: build()}), {f"{kind}.{k}": v for k, v in term.state_dict().items()})
    assert torch.equal(made(LENGTH).bias, bias)
    for module in made.modules():  # a state does not fill these
        assert not any(module.get_buffer(name).numel() for name in module._non_persistent_buffers_set)

    half, exact = (PositionBias(**{kind: copy.deepcopy(term).bfloat16()}) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        rounded, bias = half(LENGTH).bias, exact.double()(LENGTH).bias
    torch.testing.assert_close(rounded, bias.float(), rtol=1e-4, atol=1e-4)
    if parameters := dict(exact.named_parameters()):
        assert bias.dtype == torch.float64
        run = lambda *values: functional_call(exact, dict(zip(parameters, values)), (4,)).bias  # noqa: E731
        assert torch.autograd.gradcheck(run, tuple(parameters.values()))
