r"""TUPE (Ke et al., ICLR 2021), DIET (Chen et al., EMNLP 2021) and their baselines for Transformers.

The encoder is that of the fairseq plugin. Exported folders contain its files too, so the code there does not import
`tupe`. The encoder's parameters have the plugin's names.
"""

from __future__ import annotations

import importlib
import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, initialization
from transformers.modeling_layers import GenericForQuestionAnswering
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    ModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import can_return_tuple

from tupe.encoder.encoder import EncoderBase
from tupe.encoder.layer import ACTIVATIONS
from tupe.layers import is_traced

from .configuration_tupe import AUTO_MAP, NAMES, TupeConfig


def encoder_args(config: TupeConfig) -> Namespace:
    """Return the fields of a configuration by the names of the plugin."""
    ours = {theirs: name for name, theirs in NAMES.items()}
    return Namespace(**{ours.get(name, name): value for name, value in vars(config).items()})


class TupePreTrainedModel(PreTrainedModel):
    """Base of all models: their initialization, and the attributes that Transformers reads."""

    config_class = TupeConfig
    base_model_prefix = "tupe"
    supports_gradient_checkpointing = True
    _no_split_modules: ClassVar = ["Layer"]
    _supports_sdpa = True
    _keys_to_ignore_on_load_unexpected: ClassVar = [r"^(lm_head|classifi.*|qa_outputs)\."]  # of other heads

    def _init_weights(self, module: nn.Module) -> None:
        """Initialize a term missing in the checkpoint as in a new model: the meta device loses the initial values."""
        super()._init_weights(module)
        base, own = self.base_model, list(module.parameters(recurse=False))
        known = isinstance(module, (nn.Linear, nn.Embedding, nn.LayerNorm))
        lacks = not all(p.is_meta or hasattr(p, "_is_hf_initialized") for p in own)
        if base.without_values and lacks and not known:
            drawn = dict(zip(base.modules(), type(base)(self.config).modules()))[module]
            for parameter, value in zip(own, drawn.parameters(recurse=False)):
                initialization.copy_(parameter, value)

    def save_pretrained(self, save_directory: str | os.PathLike, **kwargs: Any) -> None:
        """Also write this package's code, or if the model runs an exported copy of it, the `LICENSE`."""
        self.config.auto_map = {**AUTO_MAP}
        super().save_pretrained(save_directory, **kwargs)
        self._keep_code(Path(save_directory))

    def _upload_modified_files(self, working_dir: str | os.PathLike, *args: Any, **kwargs: Any) -> Any:
        self._keep_code(Path(working_dir))  # `save_pretrained` uploads before it returns
        return super()._upload_modified_files(working_dir, *args, **kwargs)

    def _keep_code(self, folder: Path) -> None:
        source, target = Path(self.name_or_path, "LICENSE"), folder / "LICENSE"
        if __name__ == "tupe.hf.modeling_tupe":  # not a copy of this file, which is in a folder with the others
            importlib.import_module("tupe.hf.code").write_code(folder)
        elif source.is_file() and not target.is_file():
            shutil.copyfile(source, target)


class TupeModel(TupePreTrainedModel, EncoderBase):
    """The encoder: tokens to features, of sequences `<s> a </s>` or `<s> a </s> </s> b </s>`, padded on the right.

    With `pair_separators` 1, a pair is `<s> a </s> b </s>`.
    """

    def __init__(self, config: TupeConfig) -> None:
        super().__init__(config)
        args = encoder_args(config)
        embed_tokens = nn.Embedding(config.vocab_size, config.embedding_dim or config.hidden_size, config.pad_token_id)
        self.build(args, embed_tokens, config.eos_token_id)
        self.without_values = embed_tokens.weight.is_meta
        self.gradient_checkpointing = False
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: object,
    ) -> BaseModelOutput:
        """Compute features `(B, n, d)`, which are meaningless at padding.

        Args:
            input_ids: `(B, n)`, `n` at most `max_position_embeddings`.
            attention_mask: `(B, n)`, 0 at padding, which is on the right; by default, padding is where tokens are
                `<pad>`.
            token_type_ids: `(B, n)`, segments 0 and 1; from the separators by default.
            inputs_embeds: `(B, n, d)`, instead of `input_ids`; all tokens are then segment 0 by default.
            output_hidden_states: also return the input of every layer, and `last_hidden_state` as the last.

        Raises:
            ValueError: if a sequence is too long, and on the CPU for padding on the left.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("pass either input_ids or inputs_embeds")
        # DataCollatorWithFlattening puts sequences side by side, and they would attend to each other
        assert kwargs.get("position_ids") is None, "position_ids is not supported: pad the sequences of a batch"
        given = inputs_embeds if input_ids is None else input_ids
        if attention_mask is not None:
            hidden = attention_mask.eq(0).expand(given.shape[:2])
        elif input_ids is None or self.config.pad_token_id is None:
            hidden = torch.zeros(given.shape[:2], dtype=torch.bool, device=given.device)
        else:
            hidden = input_ids.eq(self.config.pad_token_id)
        keep = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        readable = hidden.device.type == "cpu" and not is_traced()
        tokens = self.tokens(hidden, int(hidden.logical_not().sum()) if readable else None)
        if token_type_ids is not None:
            segments = token_type_ids.bool().expand(hidden.shape)
        else:
            segments = torch.zeros_like(hidden) if input_ids is None else self.segments(input_ids)
        given = tokens.unpad(given)
        x = (given if input_ids is None else self.embed_tokens(given)).to(self.embed_tokens.weight.dtype)
        self.checkpoint_activations = self.gradient_checkpointing
        x, states = self.run(self.embed(x, tokens, segments), tokens, self.terms(hidden.shape[1], segments), keep)
        x = tokens.pad(x)
        return BaseModelOutput(last_hidden_state=x, hidden_states=None if states is None else (*states[:-1], x))


class TupeForTask(TupePreTrainedModel):
    """The encoder and a head, which a subclass adds: its modules, `scores`, and its class of outputs."""

    output_class: ClassVar[type[ModelOutput]]

    def __init__(self, config: TupeConfig) -> None:
        super().__init__(config)
        self.tupe = TupeModel(config)
        self.add_head(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, n)
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: object,
    ) -> Any:  # sentence-transformers would look for the fields of ModelOutput
        """Compute scores, and the loss if there are labels. Other arguments are those of `TupeModel`."""
        outputs = self.tupe(input_ids, attention_mask, token_type_ids, inputs_embeds, return_dict=True, **kwargs)
        scores = self.scores(outputs.last_hidden_state)
        loss = None if labels is None else self.loss(scores, labels, **kwargs)
        return self.output_class(loss, scores, outputs.hidden_states, outputs.attentions)

    def loss(self, scores: Tensor, labels: Tensor, **kwargs: object) -> Tensor:
        """Compute Transformers' loss for this class, which picks the arguments that it needs."""
        given = {"logits": scores, "pooled_logits": scores, "labels": labels, "vocab_size": self.config.vocab_size}
        return self.loss_function(**given, config=self.config, **kwargs)


class LanguageModelHead(nn.Module):
    """RoBERTa's language-model head: dense layer, activation, layer norm, and the token embeddings."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        width = config.embedding_dim or config.hidden_size
        self.dense = nn.Linear(config.hidden_size, width, bias=not config.no_biases)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.layer_norm = nn.LayerNorm(width, config.layer_norm_eps, bias=not config.no_biases)
        self.decoder = nn.Linear(width, config.vocab_size)

    def forward(self, features: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(self.activation(self.dense(features))))  # B n d -> B n V


class TupeForMaskedLM(TupeForTask):
    """Predict the token at every position; `labels` are `(B, n)`, with -100 to ignore."""

    output_class = MaskedLMOutput
    _tied_weights_keys: ClassVar = {"lm_head.decoder.weight": "tupe.embed_tokens.weight"}

    def add_head(self, config: TupeConfig) -> None:
        self.lm_head = LanguageModelHead(config)

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head.decoder = new_embeddings

    def scores(self, features: Tensor) -> Tensor:
        return self.lm_head(features)  # B n V


class ClassificationHead(nn.Module):
    """fairseq's classification head on `[CLS]`: dense layer, activation and output; or ELECTRA's, only the output."""

    def __init__(self, config: TupeConfig) -> None:
        super().__init__()
        self.dense = None if config.linear_heads else nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.pooler_act]
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, features: Tensor) -> Tensor:
        x = self.dropout(features[:, 0])  # B n d -> B d
        if self.dense is not None:
            x = self.dropout(self.activation(self.dense(x)))
        return self.out_proj(x)  # B L


class TupeForSequenceClassification(TupeForTask):
    """Predict a class, or with one label a number, of a text or pair, `labels` `(B,)`; or several classes, `(B, L)`."""

    output_class = SequenceClassifierOutput

    def add_head(self, config: TupeConfig) -> None:
        self.classifier = ClassificationHead(config)

    def scores(self, features: Tensor) -> Tensor:
        return self.classifier(features)  # B L

    def loss(
        self, scores: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None, **kwargs: object
    ) -> Tensor:
        """Compute the mean over the labels, or with `num_items_in_batch` the sum divided by it (see `Trainer`)."""
        loss = super().loss(scores, labels, num_items_in_batch=num_items_in_batch, **kwargs)
        if num_items_in_batch is None or self.config.problem_type == "single_label_classification":
            return loss
        return loss * labels.numel() / num_items_in_batch  # Transformers divides only single-label losses


class TupeForTokenClassification(TupeForTask):
    """Predict a class for every token; `labels` are `(B, n)`, with -100 to ignore."""

    output_class = TokenClassifierOutput

    def add_head(self, config: TupeConfig) -> None:
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def scores(self, features: Tensor) -> Tensor:
        return self.classifier(self.dropout(features))  # B n L


class TupeForQuestionAnswering(GenericForQuestionAnswering, TupePreTrainedModel):
    """Predict the start and the end of an answer."""

    base_model_prefix = "tupe"

    def __init__(self, config: TupeConfig) -> None:
        TupePreTrainedModel.__init__(self, config)  # the other base's uses `AutoModel`, which needs trust
        self.tupe = TupeModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, n)
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,  # `Trainer` drops it from the data unless it is named here
        inputs_embeds: Tensor | None = None,
        start_positions: Tensor | None = None,  # (B,)
        end_positions: Tensor | None = None,
        **kwargs: object,
    ) -> QuestionAnsweringModelOutput:
        """Score every token as the first and the last of the answer. Other arguments are those of `TupeModel`."""
        of_answer = {"start_positions": start_positions, "end_positions": end_positions}
        given = {"inputs_embeds": inputs_embeds, "token_type_ids": token_type_ids, **of_answer, **kwargs}
        return super().forward(input_ids, attention_mask, **given)
