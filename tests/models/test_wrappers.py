"""Every kind of term is the same under what replicates, shards, replicates, prunes or hooks it."""

import json
import subprocess

import pytest
import torch
from torch import nn

from tests.commands import ROOT, environment
from tests.models.small import KINDS

SHARDED = ["DDP", "FSDP"]


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
