"""The same as `tupe table`.

Example: tupe glue-table TUPE-R=runs/glue/tupe_base runs/glue/bert_a_base --published
"""

from __future__ import annotations

from tupe.cli.table import add_arguments, run

__all__ = ["add_arguments", "run"]
