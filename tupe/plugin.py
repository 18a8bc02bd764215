"""Register the whole plugin with fairseq: importing this module is enough.

fairseq imports `tasks` and `models` of `--user-dir`. Their `__init__.py` and `tupe.patches.launch` import this file.
"""

import tupe.criterions
import tupe.models.electra
import tupe.models.seq2seq.model
import tupe.models.tupe
import tupe.optim
import tupe.patches
import tupe.tasks.multilingual_masked_lm
import tupe.tasks.question_answering
import tupe.tasks.sentence_prediction  # noqa: F401
