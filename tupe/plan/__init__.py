"""Plan a training before it starts: what it will do, need and cost, and what cannot work."""

from tupe.plan.check import Launch
from tupe.plan.config import plus, read_config, with_pluses
from tupe.plan.pretraining import plan

__all__ = ["Launch", "plan", "plus", "read_config", "with_pluses"]
