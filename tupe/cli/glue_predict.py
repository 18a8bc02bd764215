"""The same as `tupe predict`: a task's test-set predictions as the GLUE server takes them.

AX is predicted by a checkpoint of MNLI.
Example: tupe glue-predict runs/glue/tupe_base/RTE/lr_3e-05/seed_2/checkpoint_best.pt data/glue/RTE submission
"""

from __future__ import annotations

from tupe.cli.predict import add_arguments, run

__all__ = ["add_arguments", "run"]
