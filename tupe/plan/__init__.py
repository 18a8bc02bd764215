"""Plan a training before it starts: its parameters, tokens, updates, epochs and hours."""

from tupe.plan.config import read_config
from tupe.plan.plan import Launch, plan

__all__ = ["Launch", "plan", "read_config"]
