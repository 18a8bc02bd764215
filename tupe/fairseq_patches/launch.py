"""Several processes: `torchrun`, processes that fairseq starts itself, and the CPU."""

import atexit
import gc
import importlib.util
import logging
import os
import sys

import torch
from fairseq import distributed, distributed_utils
from fairseq.models.roberta import RobertaModel

from tupe.errors import UserError
from tupe.fairseq_patches.patching import only_runs, patches, wrap
from tupe.fairseq_patches.scope import before_training, config_in_scope

logger = logging.getLogger(__name__)

_HYDRA_LINES = (
    "distributed_world_size: ${oc.decode:${oc.env:WORLD_SIZE}}, distributed_rank: ${oc.decode:${oc.env:RANK}}, "
    "distributed_init_method: env://, distributed_no_spawn: true"
)
_HYDRA_CPU_LINES = ", distributed_backend: gloo, ddp_backend: legacy_ddp"


#: Criterions that give each parameter of an encoder of ours a gradient.
_TRAIN_EVERY_PARAMETER = ("masked_lm", "tupe_masked_lm", "tupe_electra")


@patches(distributed_utils, "call_main", "cfg main", only_for=lambda cfg, *args, **kwargs: config_in_scope(cfg))
def launch(original):
    """Takes world size and rank from `torchrun`, and gloo with `legacy_ddp` on the CPU.

    fairseq reads the environment only if `--distributed-world-size` (default: the GPUs of this machine) is above 1:
    on the CPU or with one GPU a machine, every process of `torchrun` would train a model of its own. Processes that
    fairseq starts itself are as many as there are GPUs: without any, nothing would be trained and the exit status
    would be 0.
    """

    def call_main(cfg, main, **kwargs):
        atexit.register(leave_gloo)
        if not cfg.common.tpu:
            configure(cfg.distributed_training, on_cpu=cfg.common.cpu or not torch.cuda.is_available())
        return original(cfg, main, **kwargs)

    return call_main


def configure(distributed, on_cpu: bool) -> None:
    """Fills in `distributed` (fairseq's `DistributedTrainingConfig`) for the launcher and the device at hand.

    Raises:
        UserError: several processes were asked for that nobody would start, or a backend that cannot work here.
    """
    _refuse_sharding(distributed, on_cpu)
    if _launched_processes() > 1 and distributed.distributed_init_method in (None, "env://"):
        distributed.distributed_world_size = _launched_processes()
        distributed.distributed_rank = int(os.environ["RANK"])
        distributed.distributed_init_method = "env://"
        distributed.distributed_no_spawn = True
        distributed.device_id = 0 if on_cpu else int(os.environ.get("LOCAL_RANK", 0))
    size, gpus = distributed.distributed_world_size, torch.cuda.device_count()
    if size == 1:
        return
    one_machine = distributed.distributed_init_method is None and "SLURM_JOB_NODELIST" not in os.environ
    if not distributed.distributed_no_spawn and (gpus == 0 or (one_machine and size > gpus)):
        raise UserError(
            f"a world size of {size} needs {size} processes, but fairseq starts one for each GPU and sees {gpus} here: "
            f"start them with `torchrun --nproc-per-node {size} --no-python fairseq-train ...` or lower "
            "--distributed-world-size"
        )
    if on_cpu:
        for field, needs_gpus, works in (
            ("distributed_backend", "nccl", "gloo"),
            ("ddp_backend", "pytorch_ddp", "legacy_ddp"),
        ):
            if getattr(distributed, field) == needs_gpus:
                setattr(distributed, field, works)
                logger.info(f"{field} is {works} here: {needs_gpus} needs GPUs")


def _refuse_sharding(distributed, on_cpu: bool) -> None:
    if distributed.ddp_backend == "fully_sharded" and (on_cpu or importlib.util.find_spec("fairscale") is None):
        raise UserError(
            "ddp_backend fully_sharded needs GPUs and the package fairscale: choose legacy_ddp, or on GPUs pytorch_ddp"
        )


def shards_where_it_can(original):
    """Under Hydra this package is imported after `call_main`. For every run: fairseq fails here as well."""

    def fsdp_enable_wrap(cfg, **kwargs):
        _refuse_sharding(cfg, on_cpu=not torch.cuda.is_available())
        return original(cfg, **kwargs)

    return fsdp_enable_wrap


@only_runs
def shards() -> None:
    for module in (distributed, sys.modules.get("fairseq_cli.train")):
        if module is not None:
            wrap(module, "fsdp_enable_wrap", "cfg", shards_where_it_can)


@before_training
def unused_parameters(cfg, task, model):
    """A criterion of anything but words leaves the language-model head without gradients: `pytorch_ddp` would stop."""
    if isinstance(model, RobertaModel) and getattr(cfg.criterion, "_name", None) not in _TRAIN_EVERY_PARAMETER:
        cfg.distributed_training.find_unused_parameters = True


@before_training
def hydra_does_not_train_alone(cfg, task, model):
    """Under Hydra this package is imported after `call_main`, when it is too late to read the environment.

    Raises:
        UserError: `torchrun` started several processes, and the configuration does not connect them.
    """
    atexit.register(leave_gloo)
    if _launched_processes() > 1 and "fairseq_cli.hydra_train" in sys.modules:
        from hydra.core.hydra_config import HydraConfig

        if HydraConfig.initialized() and not torch.distributed.is_initialized():
            lines = _HYDRA_LINES + ("" if torch.cuda.is_available() else _HYDRA_CPU_LINES)
            raise UserError(
                f"torchrun started {_launched_processes()} processes, but each would train alone because "
                "fairseq-hydra-train does not read torchrun's environment: set in the YAML, in distributed_training, "
                + lines
            )


def leave_gloo() -> None:
    """Ends gloo's threads before the interpreter ends: otherwise a finished process can die of SIGABRT.

    fairseq keeps a group of its own, whose threads live as long as it is referred to.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()
        vars(distributed_utils.get_global_group).pop("_global_group", None)
        gc.collect()


def _launched_processes() -> int:
    """How many processes `torchrun` started; 1 without it."""
    launched = all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"))
    return int(os.environ["WORLD_SIZE"]) if launched else 1
