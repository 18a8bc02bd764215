"""`--compile`: the same function and parameter names, one graph for all lengths."""

from functools import partial

import pytest
import torch
from torch._dynamo.utils import counters

from tupe.encoder.layer import compiled


@pytest.mark.parametrize(("unpad", "backend"), [("never", "inductor"), ("always", "aot_eager")])
def test_same_outputs_and_gradients_at_every_length(build, tokens, unpad, backend, monkeypatch):
    """Without padding the graph is another one; what the C++ compiler makes of a graph, the first case shows."""
    monkeypatch.setattr("tupe.encoder.layer.torch.compile", partial(torch.compile, backend=backend))
    fields = {"dropout": 0.0, "attention_dropout": 0.0, "unpad": unpad}
    eager, other = (build("tupe_tiny", compile=compile, **fields).train() for compile in (False, True))
    assert list(other.state_dict()) == list(eager.state_dict())
    torch._dynamo.reset()
    counters.clear()
    compiled.cache_clear()
    for length in (13, 9, 11):
        for model in (eager, other):
            model.zero_grad()
            model(tokens[:, :length])[0].square().mean().backward()
        gradients = [{name: p.grad for name, p in model.named_parameters()} for model in (eager, other)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(other(tokens[:, :length])[0], eager(tokens[:, :length])[0], rtol=1e-4, atol=1e-5)
    compiled.cache_clear()
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


def test_evaluation_needs_no_compiler(build, tokens):
    compiled.cache_clear()
    with torch.no_grad():
        build("tupe_tiny", compile=True)(tokens)
    assert compiled.cache_info().currsize == 0
