"""One of two processes that compute systems under every wrapper, and say where they differ from the plain model.

python -m tests.models.two_processes RANK FOLDER SYSTEM...      # writes FOLDER/RANK.json: [wrapper, system, what]
"""

import copy
import json
import os
import re
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path

import fairseq_cli.train  # noqa: F401  before the plugin, as in fairseq's commands
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.models.small import small_batch, small_dictionary, small_model
from tupe.encoder.layer import Layer

CPU = torch.device("cpu")


def terms_of(model):
    """Each term of the positions, a module of its own kind."""
    return list(model.encoder.sentence_encoder.position_bias.children())


def fsdp1(model):
    policy = ModuleWrapPolicy({Layer})
    return FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=False, device_id=CPU)


def fsdp2(model):
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    for unit in (*model.encoder.sentence_encoder.layers, *terms_of(model)):
        fully_shard(unit, mesh=mesh)
    return fully_shard(model, mesh=mesh)


WRAPPERS = {
    "DDP": lambda model: DistributedDataParallel(model, find_unused_parameters=False),
    "FSDP1": fsdp1,
    "FSDP2, each term": fsdp2,
}


def loss_of(logits):
    return logits.square().mean()


def gathered(wrapped):
    """The whole parameters by name, from both processes."""
    if isinstance(wrapped, FullyShardedDataParallel):
        context = FullyShardedDataParallel.summon_full_params(wrapped)
    else:
        context = nullcontext()
    with context:
        return {
            re.sub(r"^module\.|_fsdp_wrapped_module\.", "", name): (
                parameter.full_tensor() if isinstance(parameter, DTensor) else parameter.clone()
            ).detach()
            for name, parameter in wrapped.named_parameters()
        }


def compare(system, wrap, dictionary, rank):
    """Raises where the wrapped model differs: logits and loss of its half of the batch, every gradient, evaluation."""
    plain = small_model(f"{system}_tiny", dictionary, dropout=0.0, attention_dropout=0.0)
    halves = [small_batch(dictionary, lengths, seed) for seed, lengths in enumerate([(12, 9), (12, 7)])]
    halves[0][0, 5:7] = dictionary.eos()  # a pair
    wrapped = wrap(copy.deepcopy(plain))
    models = plain, wrapped
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.5) for model in models]  # a change is a gradient
    for _ in range(2):  # the second round meets what the first may have kept
        plain.train(), wrapped.train()
        logits, expected = wrapped(halves[rank])[0], [plain(half)[0] for half in halves]
        torch.testing.assert_close(logits, expected[rank], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(loss_of(logits), loss_of(expected[rank]))
        for optimizer, loss in zip(optimizers, (sum(map(loss_of, expected)) / 2, loss_of(logits))):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        parameters = gathered(wrapped)
        assert parameters.keys() == dict(plain.named_parameters()).keys()
        for name, parameter in plain.named_parameters():
            torch.testing.assert_close(parameters[name], parameter.detach(), rtol=1e-4, atol=1e-5, msg=name)
        plain.eval(), wrapped.eval()
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(wrapped(halves[rank])[0], plain(halves[rank])[0], rtol=1e-4, atol=1e-4)


def main(rank, folder, systems):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    dictionary = small_dictionary()
    differences = []
    for system in systems:
        for name, wrap in WRAPPERS.items():
            what = ""
            try:
                compare(system, wrap, dictionary, rank)
            except Exception:
                what = traceback.format_exc()
            said = [None, None]
            dist.all_gather_object(said, what)
            differences.append([name, system, what])
            if any(said):
                break
    (folder / f"{rank}.json").write_text(json.dumps(differences))
    dist.destroy_process_group()
    sys.stderr.flush()
    os._exit(0)  # threads of gloo can abort a process that ends the long way


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
