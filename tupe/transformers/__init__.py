"""`import tupe.transformers` lets Transformers' Auto classes load exported models without their shipped code.

The classes are the files that `tupe export` ships. This project's attention kernels are one more implementation:
`AutoModel.from_pretrained(path, attn_implementation="tupe")`.
"""

import importlib
import sys
import warnings

try:
    importlib.import_module("torchaudio")
except ModuleNotFoundError:
    pass
except (ImportError, OSError):  # it needs CUDA's libraries, and Transformers imports whatever torchaudio it finds
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchaudio"]:
        del sys.modules[name]
    sys.modules["torchaudio"] = None
    from transformers.utils import is_torchaudio_available

    is_torchaudio_available.cache_clear()  # it may have looked before
    warnings.warn(
        "torchaudio, which fairseq brings, does not load beside this build of PyTorch, and Transformers fails on it: "
        "it is hidden from this process, and `pip uninstall torchaudio` removes the cause",
        RuntimeWarning,
        stacklevel=2,
    )

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
