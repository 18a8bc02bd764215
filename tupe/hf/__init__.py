"""`import tupe.hf` lets Transformers' Auto classes load exported models without running the code in their folders."""

from tupe.util import import_transformers

transformers = import_transformers()

from tupe.hf.configuration_tupe import TupeConfig  # noqa: E402  after a torchaudio that does not load is hidden
from tupe.hf.modeling_tupe import (  # noqa: E402
    TupeForMaskedLM,
    TupeForQuestionAnswering,
    TupeForSequenceClassification,
    TupeForTokenClassification,
    TupeModel,
)

__all__ = [
    "TupeConfig",
    "TupeForMaskedLM",
    "TupeForQuestionAnswering",
    "TupeForSequenceClassification",
    "TupeForTokenClassification",
    "TupeModel",
]

transformers.AutoConfig.register(TupeConfig.model_type, TupeConfig, exist_ok=True)
for _name in __all__[1:]:
    _auto = f"AutoModel{_name.removeprefix('Tupe').removeprefix('Model')}"
    getattr(transformers, _auto).register(TupeConfig, globals()[_name], exist_ok=True)
