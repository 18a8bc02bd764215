"""Every kind of term is the same under what replicates, shards or hooks it."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.models.small import KINDS, small_batch, small_dictionary, small_model


def fsdp(model):
    """Shard each layer and each term of the positions."""
    mesh, encoder = dist.device_mesh.init_device_mesh("cpu", (2,)), model.encoder.sentence_encoder
    for unit in (*encoder.layers, *encoder.position_bias.children()):
        fully_shard(unit, mesh=mesh)
    return fully_shard(model, mesh=mesh)


WRAPPERS = {"DDP": lambda model: DistributedDataParallel(model, find_unused_parameters=False), "FSDP": fsdp}


def compare(system, wrap, rank):
    """Raises where the wrapped model differs: logits of its half of the batch, every update, evaluation."""
    dictionary = small_dictionary()
    plain = small_model(f"{system}_tiny", dictionary, dropout=0.0, attention_dropout=0.0)
    halves = [small_batch(dictionary, lengths, seed) for seed, lengths in enumerate([(12, 9), (12, 7)])]
    halves[0][0, 5:7] = dictionary.eos()  # a pair
    wrapped = wrap(copy.deepcopy(plain))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.5) for model in (plain, wrapped)]  # a change is a gradient
    for _ in range(2):  # the second round meets what the first may have kept
        plain.train(), wrapped.train()
        logits, expected = wrapped(halves[rank])[0], [plain(half)[0] for half in halves]
        torch.testing.assert_close(logits, expected[rank], rtol=1e-4, atol=1e-5)
        losses = sum(out.square().mean() for out in expected) / 2, logits.square().mean()
        for optimizer, loss in zip(optimizers, losses):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = {name.removeprefix("module."): parameter.detach() for name, parameter in wrapped.named_parameters()}
        for name, parameter in plain.named_parameters():
            own = found[name].full_tensor() if isinstance(found[name], DTensor) else found[name]
            torch.testing.assert_close(own, parameter.detach(), rtol=1e-4, atol=1e-5, msg=name)
        plain.eval(), wrapped.eval()
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(wrapped(halves[rank])[0], plain(halves[rank])[0], rtol=1e-4, atol=1e-4)


def process(rank, wrapper, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for system in KINDS:
        try:
            compare(system, WRAPPERS[wrapper], rank)
        except Exception as error:
            raise AssertionError(f"{wrapper} of {system}") from error
    dist.destroy_process_group()


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_sharded(wrapper, tmp_path):
    method = "fork" if torch.version.cuda is None else "spawn"  # autograd's threads for CUDA forbid a fork
    torch.multiprocessing.start_processes(process, (wrapper, tmp_path / "meeting"), nprocs=2, start_method=method)


def projections(model):
    return {name: module for name, module in model.named_modules() if isinstance(module, (nn.Linear, nn.LayerNorm))}


@pytest.mark.parametrize("system", KINDS)
@pytest.mark.parametrize("half", [False, True])
@torch.no_grad()
def test_hooks_of_every_projection_run(system, build, tokens, half):
    """And change nothing: under half precision the terms stay in float32."""
    model = build(f"{system}_tiny")
    model = model.half() if half else model
    want, called = model(tokens)[0], set()
    for name, module in projections(model).items():
        module.register_forward_hook(lambda *_, name=name: called.add(name))
    model.eval()  # forgets the terms that were computed without hooks
    torch.testing.assert_close(model(tokens)[0], want, **({"rtol": 5e-3, "atol": 5e-3} if half else {}))
    assert called == projections(model).keys()
