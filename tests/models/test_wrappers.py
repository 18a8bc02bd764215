"""Every kind of term is the same under what replicates, shards, replicates, prunes or hooks it."""

import json
import subprocess

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from tests.commands import ROOT, environment
from tests.models.small import KINDS
from tests.position.replicas import replica

SHARDED = ["DDP", "FSDP1", "FSDP2, each term"]


@pytest.fixture(scope="module")
def differences(tmp_path_factory):
    """wrapper, system -> how the two processes differ from the plain model; started once for all."""
    folder = tmp_path_factory.mktemp("processes")
    command = ["python3", "-m", "tests.models.two_processes"]
    both = [
        subprocess.Popen(
            [*command, str(rank), str(folder), *KINDS], cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    by_rank = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
    return {(wrapper, system): (what, other) for (wrapper, system, what), (_, _, other) in zip(*by_rank)}


@pytest.mark.parametrize("system", KINDS)
@pytest.mark.parametrize("wrapper", SHARDED)
def test_sharded(differences, wrapper, system):
    assert differences[wrapper, system] == ("", "")


@pytest.fixture
def model(request, build):
    return build(f"{request.param}_tiny", dropout=0.0, attention_dropout=0.0)


kinds = pytest.mark.parametrize("model", KINDS, indirect=True)


def gradients(model, run, tokens):
    model.zero_grad()
    run(tokens)[0].square().mean().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@kinds
def test_replicated(model, pairs):
    """`DataParallel`: the weights of a replica are plain attributes, with a graph that leads to the model's."""
    want, expected = model(pairs)[0], gradients(model, model, pairs)
    torch.testing.assert_close(replica(model)(pairs)[0], want)
    torch.testing.assert_close(gradients(model, replica(model), pairs), expected)
    with torch.no_grad():
        torch.testing.assert_close(replica(model)(pairs)[0], model(pairs)[0])


@kinds
@torch.no_grad()
def test_pruned(model, pairs):
    """A pruned weight is made anew before its module's `forward`, from one that goes on learning."""
    model(pairs)
    tied = model.encoder.lm_head.weight
    whole = [
        (module, name)
        for module in model.modules()
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.ndim > 1 and parameter is not tied
    ]
    for module, name in whole:
        prune.random_unstructured(module, name, amount=0.3)
    for name, parameter in model.named_parameters():
        if name.endswith("_orig"):
            parameter.mul_(1.5)
    pruned = model(pairs)[0]
    for module, name in whole:
        prune.remove(module, name)
    torch.testing.assert_close(model(pairs)[0], pruned)


def projections(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, (nn.Linear, nn.LayerNorm))}


@kinds
@pytest.mark.parametrize("half", [False, True])
@torch.no_grad()
def test_hooks_of_every_projection_run(model, tokens, half):
    """And change nothing: under half precision the terms stay in float32."""
    model = model.half() if half else model
    want, called = model(tokens)[0], set()
    for name, module in projections(model).items():
        module.register_forward_hook(lambda *_, name=name: called.add(name))
    model.eval()  # forgets the terms that were computed without hooks
    torch.testing.assert_close(model(tokens)[0], want, **({"rtol": 5e-3, "atol": 5e-3} if half else {}))
    assert called == projections(model).keys()


class LowRankUpdate(nn.Module):
    """`x W + x A B`, as LoRA's: in the place of a linear layer."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.update = nn.Sequential(nn.Linear(base.in_features, 2), nn.Linear(2, base.out_features))

    def forward(self, x):
        return self.base(x) + self.update(x)


@kinds
def test_adapters_learn_in_every_projection(model, pairs):
    for name, module in projections(model).items():
        if isinstance(module, nn.Linear):
            setattr(model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], LowRankUpdate(module))
    with torch.no_grad():
        first = model(pairs)[0]
        for name, parameter in model.named_parameters():
            if ".update.1" in name:
                parameter.add_(0.5)
        assert not torch.equal(model(pairs)[0], first)
    model(pairs)[0].square().sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if ".update." in name)
