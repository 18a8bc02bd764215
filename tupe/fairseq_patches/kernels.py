"""The attention kernels are checked before a training on a GPU begins (`tupe.attention.verification`)."""

import torch

from tupe.attention.verification.ensure import ensure_checked
from tupe.attention.verification.trusted import checks
from tupe.fairseq_patches.scope import before_training


@before_training
def checked_kernels(cfg, task, model):
    """Check the kernels for the run's type where no record tells whether they are right here."""
    backend = getattr(cfg.model, "attention_backend", None)
    if not checks() or cfg.common.cpu or not torch.cuda.is_available() or backend not in ("auto", "triton"):
        return
    half = torch.bfloat16 if cfg.common.bf16 else torch.float16
    mixed = cfg.common.bf16 or cfg.common.fp16 or cfg.common.amp
    ensure_checked(torch.device("cuda", torch.cuda.current_device()), half if mixed else torch.float32)
