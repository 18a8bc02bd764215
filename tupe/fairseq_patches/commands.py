"""Commands of fairseq: their arguments, and how the processes of one training meet."""

import atexit
import gc
import logging
import os
import sys

import torch
from fairseq import distributed_utils, options
from fairseq.models.roberta import RobertaModel
from hydra.core.hydra_config import HydraConfig

from tupe.fairseq_patches.patching import patches
from tupe.fairseq_patches.scope import config_in_scope
from tupe.util import UserError

logger = logging.getLogger(__name__)

_HYDRA_LINES = (
    "distributed_world_size: ${oc.decode:${oc.env:WORLD_SIZE}}, distributed_rank: ${oc.decode:${oc.env:RANK}}, "
    "distributed_init_method: env://, distributed_no_spawn: true"
)
_HYDRA_CPU_LINES = ", distributed_backend: gloo, ddp_backend: legacy_ddp"
#: Variables that `torchrun` sets for every process that it starts.
_TORCHRUN = ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT")
#: Criterions that give each parameter of an encoder of ours a gradient.
_TRAIN_EVERY_PARAMETER = ("masked_lm", "tupe_masked_lm", "tupe_electra")


@patches(options, "parse_args_and_arch", "parser input_args parse_known")
def bf16_without_a_tpu(original):
    """Let `--bf16` train: fairseq sets `args.tpu` with it, and training then asks torch_xla for a device."""

    def parse_args_and_arch(parser, input_args=None, parse_known=False, **others):
        parsed = original(parser, input_args=input_args, parse_known=parse_known, **others)
        args = parsed[0] if parse_known else parsed
        if config_in_scope(args) and "--tpu" not in (sys.argv[1:] if input_args is None else input_args):
            args.tpu = False
        return parsed

    return parse_args_and_arch


@patches(distributed_utils, "call_main", "cfg main", only_for=lambda cfg, *args, **kwargs: config_in_scope(cfg))
def command(original):
    """Take the world size and rank from `torchrun`; on the CPU use gloo and `legacy_ddp`.

    fairseq reads the environment only if `--distributed-world-size` (default: the GPUs of this machine) is above 1:
    on the CPU or with one GPU a machine, every process of `torchrun` would train a model of its own. fairseq starts
    one process per GPU: without GPUs, nothing would be trained and the exit status would be 0. `fairseq-generate` does
    not call this function, nor does `fairseq-hydra-train` without the callback of `early`.
    """

    def call_main(cfg, main, **kwargs):
        atexit.register(leave_gloo)
        if not cfg.common.tpu:
            configure(cfg.distributed_training, on_cpu=cfg.common.cpu or not torch.cuda.is_available())
        return original(cfg, main, **kwargs)

    return call_main


def configure(distributed, on_cpu: bool) -> None:
    """Fill in `distributed` (fairseq's `DistributedTrainingConfig`) for the launcher and the device at hand.

    Raises:
        UserError: nobody would start the processes of this world size.
    """
    if _launched_processes() > 1 and distributed.distributed_init_method in (None, "env://"):
        distributed.distributed_world_size = _launched_processes()
        distributed.distributed_rank = int(os.environ["RANK"])
        distributed.distributed_init_method = "env://"
        distributed.distributed_no_spawn = True
        distributed.device_id = 0 if on_cpu else int(os.environ.get("LOCAL_RANK", 0))
    if distributed.distributed_world_size == 1 and distributed.distributed_init_method is None:
        return
    if not distributed.distributed_no_spawn and torch.cuda.device_count() == 0:
        size = distributed.distributed_world_size
        raise UserError(
            f"A world size of {size} needs {size} processes, but fairseq starts one per GPU and sees none. Start them "
            f"with `torchrun --nproc-per-node {size} --no-python fairseq-train ...`."
        )
    if on_cpu:
        for field, needs_gpus, works in (
            ("distributed_backend", "nccl", "gloo"),
            ("ddp_backend", "pytorch_ddp", "legacy_ddp"),
        ):
            if getattr(distributed, field) == needs_gpus:
                setattr(distributed, field, works)
                logger.info(f"{field} is {works} here: {needs_gpus} needs GPUs")


def find_unused_parameters(cfg, model) -> None:
    """Let `pytorch_ddp` look for parameters without gradients, at which it would stop.

    A criterion that predicts no tokens leaves the language-model head without a gradient.
    """
    if isinstance(model, RobertaModel) and getattr(cfg.criterion, "_name", None) not in _TRAIN_EVERY_PARAMETER:
        cfg.distributed_training.find_unused_parameters = True


def refuse_to_train_alone() -> None:
    """Refuse processes that would train a model each.

    Without the callback of `early`, this package is imported after `call_main`, too late to read the environment.

    Raises:
        UserError: `torchrun` started several processes, and the configuration does not connect them.
    """
    atexit.register(leave_gloo)
    if _launched_processes() > 1 and HydraConfig.initialized() and not torch.distributed.is_initialized():
        lines = _HYDRA_LINES + ("" if torch.cuda.is_available() else _HYDRA_CPU_LINES)
        raise UserError(
            f"torchrun started {_launched_processes()} processes, but each would train alone, because "
            f"fairseq-hydra-train does not read torchrun's environment. Set in distributed_training of the YAML {lines}"
        )


def leave_gloo() -> None:
    """End gloo's threads before the interpreter ends: otherwise a finished process can die of SIGABRT.

    fairseq keeps a group of its own, whose threads live as long as it is referred to.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()
        vars(distributed_utils.get_global_group).pop("_global_group", None)
        gc.collect()


def _launched_processes() -> int:
    """Return how many processes `torchrun` started; 1 without it."""
    return int(os.environ["WORLD_SIZE"]) if all(os.environ.get(name) for name in _TORCHRUN) else 1
