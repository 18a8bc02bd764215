"""What a model does before its training: check the attention kernels."""

from typing import Any

import torch
from omegaconf import DictConfig

from tupe.attention.verification.ensure import ensure_checked
from tupe.attention.verification.trusted import checks


def check_kernels(cfg: Any) -> None:
    """Check the attention kernels for the run's type, on a GPU where no record tells whether they are right."""
    if not checks() or cfg.common.cpu or not torch.cuda.is_available():
        return
    if cfg.model.attention_backend not in ("auto", "triton"):
        return
    half = torch.bfloat16 if cfg.common.bf16 else torch.float16
    mixed = cfg.common.bf16 or cfg.common.fp16 or cfg.common.amp
    ensure_checked(torch.device("cuda", torch.cuda.current_device()), half if mixed else torch.float32)


class BeforeTraining:
    """Base of the models. Our trainer calls `before_training` before it is made."""

    def before_training(self, cfg: DictConfig) -> None:
        """Check the attention kernels."""
        check_kernels(cfg)
