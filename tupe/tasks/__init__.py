"""The fairseq tasks, and what must be there before one is set up: mends of fairseq, criterions, schedules."""

import tupe.fairseq_mends  # noqa: F401
import tupe.criterions  # noqa: F401, I001
import tupe.optim  # noqa: F401
