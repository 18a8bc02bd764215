"""The learning-rate schedules; importing this registers them with fairseq."""

from tupe.optim.linear_decay import LinearDecaySchedule

__all__ = ["LinearDecaySchedule"]
