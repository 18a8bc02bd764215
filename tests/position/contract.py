"""What `PositionBias`, its cache, structured biases and exports rely on in a term, for tests of terms."""

import copy

import torch
from torch import nn

from tupe.position import PositionBias, RelativeTerm, Reset, StructuredBias
from tupe.position.length import Span

LENGTH = 12


class Bias(nn.Module):
    """The bias for as many positions as the input has rows."""

    def __init__(self, position):
        super().__init__()
        self.position = position

    def forward(self, x):
        return self.position(x.shape[0]).bias


def check_term(term, graphs=True):
    """Assert that a relative or absolute term does what it must at up to 12 positions."""
    pair = (None, term) if isinstance(term, RelativeTerm) else (term, None)
    whole = term(LENGTH)
    assert whole.shape[1:] == (LENGTH, LENGTH) and whole.dtype == torch.float32 and whole.isfinite().all()
    assert copy.deepcopy(term).bfloat16()(LENGTH).dtype == torch.float32
    for given in ((LENGTH, None, 0), (1, None, LENGTH - 1), (6, LENGTH, 6), (LENGTH, 1, 0)):
        span = Span.of(*given)
        torch.testing.assert_close(term(*given), whole[:, span.queries, span.keys])
    weights = torch.linspace(-1, 1, whole.numel()).sin().view_as(whole)
    for reset in (None, Reset(len(whole))):
        position = PositionBias(*pair, reset)
        dense, parts = (position.compute(LENGTH, structured).bias for structured in (False, True))
        parts = parts.dense(LENGTH) if isinstance(parts, StructuredBias) else parts
        torch.testing.assert_close(parts, dense)
        if parameters := [*term.parameters()]:
            gradients = [torch.autograd.grad((out * weights).sum(), parameters) for out in (dense, parts)]
            torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
            assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients[0])
    position = PositionBias(*pair).eval()
    with torch.no_grad():
        for _ in range(2):  # the cache follows the parameters
            torch.testing.assert_close(position(LENGTH).bias, term(LENGTH))
            for parameter in term.parameters():
                parameter.mul_(1.01).add_(0.01)
        if not graphs:
            return
        module, sizes = Bias(position), ({0: torch.export.Dim("n", min=2, max=LENGTH)},)
        torch._dynamo.reset()
        compiled = torch.compile(module, dynamic=True, fullgraph=True, backend="eager")
        exported = torch.export.export(module, (torch.zeros(LENGTH),), dynamic_shapes=sizes).module()
        for length in (5, 7, LENGTH):
            for made in (compiled, exported):
                torch.testing.assert_close(made(torch.zeros(length)), term(length))
