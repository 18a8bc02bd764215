"""One of two processes that compute systems under every wrapper, and say where they differ from the plain model.

python -m tests.models.two_processes RANK FOLDER SYSTEM...      # writes FOLDER/RANK.json: [wrapper, system, what]
"""

import copy
import json
import os
import sys
import traceback
from pathlib import Path

import fairseq_cli.train  # noqa: F401  before the plugin, as in fairseq's commands
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.models.small import small_batch, small_dictionary, small_model


def fsdp(model):
    """Shard each layer and each term of the positions."""
    mesh, encoder = dist.device_mesh.init_device_mesh("cpu", (2,)), model.encoder.sentence_encoder
    for unit in (*encoder.layers, *encoder.position_bias.children()):
        fully_shard(unit, mesh=mesh)
    return fully_shard(model, mesh=mesh)


WRAPPERS = {"DDP": lambda model: DistributedDataParallel(model, find_unused_parameters=False), "FSDP": fsdp}


def compare(system, wrap, dictionary, rank):
    """Raises where the wrapped model differs: logits of its half of the batch, every update, evaluation."""
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


def main(rank, folder, systems):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    dictionary, differences = small_dictionary(), []
    for system in systems:
        for name, wrap in WRAPPERS.items():
            what, said = "", [None, None]
            try:
                compare(system, wrap, dictionary, rank)
            except Exception:
                what = traceback.format_exc()
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
