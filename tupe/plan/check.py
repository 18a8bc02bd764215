"""Check that a training can start on its machine."""

import os
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import load
from tupe.fairseq_patches.configuration import refuse_outputs
from tupe.fairseq_patches.loop import named_checkpoint
from tupe.fairseq_patches.ranges import refuse_out_of_range
from tupe.plan.probe import Probe


@dataclass(frozen=True)
class Launch:
    """Where a run takes place."""

    nodes: int  # machines
    processes: int  # on each machine
    gpus: int  # on each machine; 0 for the CPU
    here: bool = True  # whether it starts on this machine, whose GPUs and disk are then checked
    # The plan says hours by one of these: a kind of GPU such as `h100`, what `tupe.analysis.cost.read_costs` returned,
    # or a short run.
    gpu: str | None = None
    mfu: float = 0.4  # share of the GPUs' peak that training uses
    measured: tuple[str, list[dict[str, Any]]] | None = None
    probe: Probe | None = None
    max_unused: float = 0.01  # share of the tokens that may be in lines too long to be used

    def __str__(self) -> str:
        return f"{self.nodes} node(s) x {self.processes} process(es), {self.gpus} GPU(s) a node"


def check(cfg: DictConfig, launch: Launch) -> None:
    """Check the data, the numbers, the outputs, the GPUs, and the precision on a CPU.

    Raises:
        UserError: for the first thing that cannot work.
    """
    if OmegaConf.select(cfg, "task.data") is None:
        raise UserError("no data are given: set task.data to the folder that tupe prepare-corpus or another wrote.")
    refuse_out_of_range(cfg)
    refuse_outputs(cfg)
    user_dir = cfg.common.user_dir
    if launch.here and user_dir not in (None, "tupe") and not os.path.isdir(user_dir):
        raise UserError(f"there is no folder {user_dir}: set common.user_dir to a package, such as tupe.")
    if launch.here and (begins_from := named_checkpoint(cfg.checkpoint)) is not None:
        with open(begins_from, "rb") as file:
            load(file)
    if launch.here and launch.gpus > torch.cuda.device_count():
        raise UserError(
            f"{launch.gpus} GPU(s) are asked for, but PyTorch {torch.__version__} sees {torch.cuda.device_count()}: "
            "set GPUS, look at nvidia-smi and CUDA_VISIBLE_DEVICES, and install a PyTorch with CUDA."
        )
    if launch.here and launch.gpus == 0 and cfg.common.fp16 and not cfg.common.memory_efficient_fp16:
        raise UserError("the CPU does not train with common.fp16=true: leave it out, or set common.bf16=true.")
