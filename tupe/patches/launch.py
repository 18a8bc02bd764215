"""How the processes of one training find each other, in fairseq's commands and under Hydra."""

import gc
import importlib
import os
import sys
import traceback
from typing import Any

import torch
from fairseq import distributed_utils, options
from fairseq.utils import import_user_module
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback

from tupe.util import UserError

_parse_args_and_arch = options.parse_args_and_arch
_call_main = distributed_utils.call_main
_all_gather_list = distributed_utils.all_gather_list


def parse_args_and_arch(parser, input_args=None, parse_known=False, **others):
    """Let `--bf16` train without a TPU: fairseq sets `args.tpu` with it, and training then needs torch_xla."""
    parsed = _parse_args_and_arch(parser, input_args=input_args, parse_known=parse_known, **others)
    args = parsed[0] if parse_known else parsed
    args.tpu = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
    return parsed


def call_main(cfg, main, **kwargs):
    """Take the world size and rank from `torchrun`; with `--cpu` use gloo and `legacy_ddp`.

    fairseq reads the environment only if `--distributed-world-size` (default: the GPUs of this machine) is above 1:
    on the CPU or with one GPU per machine, every process of `torchrun` would train its own model. fairseq starts
    one process per GPU: without GPUs, nothing would be trained and the exit status would be 0.

    Raises:
        UserError: nothing would start the processes of this world size.
    """
    distributed, on_cpu = cfg.distributed_training, cfg.common.cpu
    if _launched_processes() > 1 and distributed.distributed_init_method in (None, "env://"):
        distributed.distributed_world_size = _launched_processes()
        distributed.distributed_rank = int(os.environ["RANK"])
        distributed.distributed_init_method = "env://"
        distributed.distributed_no_spawn = True
        distributed.device_id = 0 if on_cpu else int(os.environ.get("LOCAL_RANK", 0))
    size = distributed.distributed_world_size
    if size > 1 or distributed.distributed_init_method is not None:
        if not distributed.distributed_no_spawn and torch.cuda.device_count() == 0:
            raise UserError(
                f"A world size of {size} needs {size} processes, but fairseq starts one per GPU and finds none. Start "
                f"them with `torchrun --nproc-per-node {size} --no-python fairseq-train --cpu ...`."
            )
        if on_cpu:
            distributed.distributed_backend, distributed.ddp_backend = "gloo", "legacy_ddp"
    return _call_main(cfg, main, **kwargs)


def refuse_to_train_alone() -> None:
    """Raise `UserError` if `torchrun` started several processes and the configuration does not connect them.

    Without `ImportUserDir` this package is imported after `call_main`, too late to read the environment.
    """
    if _launched_processes() > 1 and HydraConfig.initialized() and not torch.distributed.is_initialized():
        raise UserError(
            f"torchrun started {_launched_processes()} processes, but each would train alone: the plugin was loaded "
            "too late to connect them. Add hydra.callbacks of configs/pretraining/base.yaml to the configuration."
        )


def _launched_processes() -> int:
    """Return how many processes `torchrun` started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1))


class ImportUserDir(Callback):
    """Imports `common.user_dir` and the plugin before a Hydra job; `hydra.callbacks` in configs/ names this class.

    fairseq imports them within `main`, too late for `call_main`.
    """

    def on_job_start(self, config: Any, **kwargs: Any) -> None:
        try:
            import_user_module(config.common)  # first: users' terms are registered before the plugin is imported
            importlib.import_module("tupe.plugin")
            importlib.import_module("tupe.patches.install").install()  # a launcher may import fairseq's command later
        except Exception:  # Hydra would print a warning and continue
            traceback.print_exc()
            sys.exit(1)


def all_gather_list(data, group=None, max_size=16384):
    """Gather objects of all processes, also without a GPU; fairseq's buffer is in GPU memory."""
    if torch.cuda.is_available():
        return _all_gather_list(data, group, max_size)
    group = distributed_utils.get_global_group() if group is None else group
    gathered = [None] * distributed_utils.get_world_size(group)
    torch.distributed.all_gather_object(gathered, data, group=group)
    return gathered


def leave_gloo() -> None:
    """End gloo's threads before the interpreter ends: otherwise a finished process can die of SIGABRT.

    fairseq keeps its own group, whose threads live as long as a reference to it.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()
        vars(distributed_utils.get_global_group).pop("_global_group", None)
        gc.collect()
