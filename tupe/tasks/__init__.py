"""The fairseq tasks, and what must be there before one is set up: criterions, mends of fairseq, schedules."""

import tupe.criterions
import tupe.fairseq_mends
import tupe.optim
import tupe.tasks.sentence_prediction  # noqa: F401
