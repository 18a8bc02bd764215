"""The optimizer and the learning-rate schedule; importing this registers them with fairseq."""

from tupe.optim.fused_adamw import FusedAdamW
from tupe.optim.linear_decay import LinearDecaySchedule

__all__ = ["FusedAdamW", "LinearDecaySchedule"]
