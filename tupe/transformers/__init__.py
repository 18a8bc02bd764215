"""`import tupe.transformers` lets Transformers' Auto classes load exported models without their shipped code.

The classes are the files that `tupe export` ships. Where attention is to run on this project's kernels, say so:
`AutoModel.from_pretrained(path, attn_implementation="tupe")`.
"""

from __future__ import annotations

import importlib
import sys

try:
    importlib.import_module("torchaudio")
except ImportError:
    pass
except OSError:  # fairseq's torchaudio needs CUDA's libraries, and Transformers imports whatever torchaudio it finds
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
        del sys.modules[name]
    sys.modules["torchaudio"] = None
    from transformers.utils import is_torchaudio_available

    is_torchaudio_available.cache_clear()  # it may have looked before

from tupe.transformers.configuration_tupe import TupeConfig
from tupe.transformers.modeling_tupe import (
    TupeForMaskedLM,
    TupeForQuestionAnswering,
    TupeForSequenceClassification,
    TupeForTokenClassification,
    TupeModel,
)
from tupe.transformers.register import register

__all__ = [
    "TupeConfig",
    "TupeForMaskedLM",
    "TupeForQuestionAnswering",
    "TupeForSequenceClassification",
    "TupeForTokenClassification",
    "TupeModel",
]

register()
