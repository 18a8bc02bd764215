"""Register the model classes with Transformers' Auto classes, and this project's attention by the name `tupe`."""

from torch import Tensor, nn
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from transformers.masking_utils import flash_attention_mask

from tupe.attention import biased_attention
from tupe.transformers import modeling_tupe as models
from tupe.transformers.configuration_tupe import TupeConfig


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Call `biased_attention` with Transformers' arguments; `attention_mask` is `(B, n)`, 0 at padding."""
    padding = None if attention_mask is None else attention_mask.eq(0)
    options = {"scale": scaling, "dropout_p": dropout, "training": module.training}
    out = biased_attention(query, key, value, position_bias, key_padding_mask=padding, **options)
    return out.transpose(1, 2), None


def register() -> None:
    """Register the classes and the attention. Safe to call twice.

    `register_for_auto_class` makes `save_pretrained` and `Trainer.save_model` write the two files of code beside the
    weights, so that the folder loads where this package is not installed.
    """
    TupeConfig.register_for_auto_class()
    AutoConfig.register(TupeConfig.model_type, TupeConfig, exist_ok=True)
    for auto, model in (
        (AutoModel, models.TupeModel),
        (AutoModelForMaskedLM, models.TupeForMaskedLM),
        (AutoModelForQuestionAnswering, models.TupeForQuestionAnswering),
        (AutoModelForSequenceClassification, models.TupeForSequenceClassification),
        (AutoModelForTokenClassification, models.TupeForTokenClassification),
    ):
        auto.register(TupeConfig, model, exist_ok=True)
        model.register_for_auto_class(auto.__name__)
    AttentionInterface.register("tupe", attention)
    AttentionMaskInterface.register("tupe", flash_attention_mask)
