"""The fairseq model: the encoder with RoBERTa's LM head, classification heads and hub interface."""

import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder, register_model, register_model_architecture
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import RobertaClassificationHead
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from tupe.encoder.build import embedding_width
from tupe.encoder.encoder import Encoder
from tupe.encoder.layer import ACTIVATIONS
from tupe.layers import Linear, linear
from tupe.models.config import NAMED, TAKEN, EncoderConfig, TupeConfig, named, saved_config, undecided
from tupe.models.heads import LM_HEAD, LinearHead, SpanHead, has_lm_head, take_heads
from tupe.models.hub import from_pretrained
from tupe.patches.install import before_building
from tupe.patches.safe_load import safe_load
from tupe.systems import ELECTRA, ELECTRAS, system_fields
from tupe.util import UserError

logger = logging.getLogger(__name__)

#: Prefixes of the parameters in an ELECTRA checkpoint that are not of the discriminator's encoder.
ELECTRA_PARTS = ("generator.", "discriminator_head.")


def as_namespace(cfg: DictConfig | TupeConfig | Namespace) -> Namespace:
    """Copy the configuration to plain values; fairseq's RoBERTa may add fields to the copy."""
    if isinstance(cfg, Namespace):
        return Namespace(**vars(cfg))
    return Namespace(**OmegaConf.to_container(OmegaConf.create(cfg), resolve=True, enum_to_str=True))


class LanguageModelHead(nn.Module):
    """RoBERTa's head, from the width `d` of the encoder to the width `e` of the embeddings, then to the vocabulary."""

    def __init__(self, args: Namespace, output_dim: int, weight: Tensor | None) -> None:
        super().__init__()
        width, bias = embedding_width(args), not args.no_biases
        self.dense = Linear(args.encoder_embed_dim, width, bias=bias)
        self.activation_fn = ACTIVATIONS[args.activation_fn]
        self.layer_norm = nn.LayerNorm(width, args.layer_norm_eps, bias=bias)
        self.weight = nn.Linear(width, output_dim, bias=False).weight if weight is None else weight
        self.bias = nn.Parameter(torch.zeros(output_dim))

    def forward(self, features: Tensor) -> Tensor:
        """Compute the logits `(..., V)` of `features` `(..., d)`."""
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        return linear(x, self.weight, self.bias)


class TupeLanguageModelEncoder(FairseqEncoder):
    """The encoder and its language-model head, if it has one, under the names of fairseq's RoBERTa."""

    def __init__(self, args: Namespace, dictionary: Dictionary, with_head: bool = True) -> None:
        super().__init__(dictionary)
        self.args = args
        words = nn.Embedding(len(dictionary), embedding_width(args), dictionary.pad())
        self.sentence_encoder = Encoder(args, words, dictionary.eos())
        weight = None if args.untie_weights_roberta else words.weight
        self.lm_head = LanguageModelHead(args, len(dictionary), weight) if with_head else None

    def max_positions(self) -> int:
        return self.args.max_positions

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        masked_tokens: Tensor | None = None,
        num_tokens: int | None = None,
        head: Callable[[Tensor], Tensor] | None = None,
        pairs: bool | None = None,
        src_lengths: Tensor | None = None,
        src_id: Tensor | None = None,
        target_tokens: Tensor | None = None,
        prev_output_tokens: Tensor | None = None,
    ) -> tuple[Tensor, dict]:
        """See `TupeModel.forward` and `Encoder.forward`; the last four, which fairseq's tasks add, are not used."""
        x, states = self.sentence_encoder(src_tokens, num_tokens, return_all_hiddens, head, pairs)
        if not features_only:
            x = self.output_layer(x, masked_tokens)
        # fairseq's hub interface expects these time first
        return x, {"inner_states": states and [state.transpose(0, 1) for state in states]}

    def output_layer(self, features: Tensor, masked_tokens: Tensor | None = None) -> Tensor:
        """Compute the vocabulary logits: `(B, T, V)`, or `(N, V)` at `masked_tokens` only."""
        if self.lm_head is None:
            raise UserError("The model has no language-model head. Use its features, or pre-train a head first.")
        if masked_tokens is not None:
            features = features.flatten(0, 1)[masked_tokens.flatten()]
        return self.lm_head(features)


class TupeModel(RobertaModel):
    """An encoder with a masked-language-model head and classification heads.

    Its architectures are named in `tupe.models.config.NAMED`: `--arch tupe_base`, `model._name=bert_a_small`.
    """

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super(RobertaModel, cls).add_args(parser)  # RobertaModel's own flags would hide those of the dataclass

    @classmethod
    def build_model(cls, cfg: DictConfig | TupeConfig | Namespace, task: FairseqTask) -> "TupeModel":
        """Build the model for the dictionary and the longest sequence of `task`."""
        before_building(cfg, task)
        args = as_namespace(cfg)
        args.max_positions = args.max_positions or task.max_positions()
        return cls(args, *cls.networks(args, task.source_dictionary))

    @staticmethod
    def networks(args: Namespace, dictionary: Dictionary) -> tuple[TupeLanguageModelEncoder, ...]:
        """Build the constructor's arguments after `args`."""
        return (TupeLanguageModelEncoder(args, dictionary),)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        spans: bool = False,
        **kwargs: object,
    ) -> tuple[Tensor | tuple[Tensor, Tensor], dict]:
        """Compute language-model logits, features, or the scores of a classification or span head.

        Args:
            src_tokens: `(B, T)`, each row `<s> ...`, padded on the right.
            features_only: return the features `(B, T, d)` instead of the logits `(B, T, V)`.
            return_all_hiddens: also return `extra["inner_states"]`, `L + 1` tensors `(T, B, d)`.
            classification_head_name: return this head's scores `(B, num_classes)`.
            spans: return the span head's scores of beginnings and of ends, `(B, T)` each.
            masked_tokens: bool `(B, T)`, or indices `(N,)` into the `B * T` tokens: logits `(N, V)` only of these.
            num_tokens: number of tokens that are not padding, if known: this avoids waiting for the device, and
                computing padding (`--unpad`).
            pairs: whether any sequence has two segments, if known: this avoids waiting for the device.

        Returns:
            The output, and a dictionary with `inner_states`.
        """
        features_only = features_only or spans
        x, extra = super().forward(src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs)
        return self.span_head(x) if spans else x, extra

    def register_classification_head(
        self, name: str, num_classes: int | None = None, inner_dim: int | None = None, **kwargs: object
    ) -> None:
        """Add fairseq's head or, if `linear_heads`, a head of one layer. `kwargs` are not used, as in fairseq."""
        args, width = self.args, self.args.encoder_embed_dim
        if args.linear_heads:
            head = LinearHead(width, num_classes, args.pooler_dropout)
        else:
            head = RobertaClassificationHead(
                width, inner_dim or width, num_classes, args.pooler_activation_fn, args.pooler_dropout
            )
        self.classification_heads[name] = head

    def register_span_head(self) -> None:
        """Add the head of extractive question answering, which `tupe_question_answering` needs."""
        self.span_head = SpanHead(self.args.encoder_embed_dim)

    def freeze_layers(self, number: int) -> None:
        """Freeze the embeddings, the position terms and the first `number` layers."""
        encoder = self.encoder.sentence_encoder
        encoder.requires_grad_(False)
        for part in (*encoder.layers[number:], encoder.layer_norm):
            part.requires_grad_(True)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Adapt a checkpoint's heads to this model's.

        If the checkpoint has no language-model head, pre-training starts a new one and fine-tuning has none.
        """
        prefix = f"{name}." if name else ""
        electra = [key for key in state_dict if key.startswith(tuple(prefix + part for part in ELECTRA_PARTS))]
        for key in electra:
            del state_dict[key]
        head, words = prefix + LM_HEAD, prefix + "encoder.sentence_encoder.embed_tokens.weight"
        if has_lm_head(key.removeprefix(prefix) for key in state_dict):
            pass
        elif self.classification_heads or hasattr(self, "span_head"):
            self.encoder.lm_head = None
        elif self.encoder.lm_head is not None:
            logger.info(f"the checkpoint has no language-model head{' (ELECTRA)' * bool(electra)}")
            state_dict.update(self.encoder.lm_head.state_dict(prefix=head))
            if words in state_dict and not self.args.untie_weights_roberta:
                state_dict[head + "weight"] = state_dict[words]
        take_heads(self, state_dict, prefix)

    from_pretrained = staticmethod(from_pretrained)


def architecture(cfg: DictConfig | Namespace, name: str) -> None:
    """Fill the empty fields of `cfg` in place, from the checkpoint `cfg.pretrained` if it is set, then by `name`.

    A checkpoint lacks fields that were added after it was written, and fairseq sets no default for them. Arguments of
    a command line, which have an `arch`, are not set to `None`: the task may have the same flag (`--max-positions`).
    The trainer loads the weights of `pretrained` when the run starts, and saves the filled configuration without it.
    """
    if getattr(cfg, "pretrained", None):
        saved = saved_config(safe_load(cfg.pretrained), cfg.pretrained)
        cfg._name = name if name in ELECTRAS else saved._name.removeprefix(ELECTRA)
        for field in (*system_fields(NAMED[name][0]), *TAKEN):
            if getattr(cfg, field, None) is None:
                setattr(cfg, field, getattr(saved, field, None))
    for field, value in vars(named(name)).items():
        if getattr(cfg, field, None) is None and (value is not None or not hasattr(cfg, "arch")):
            setattr(cfg, field, value)


def register(model: str, kind: type[EncoderConfig], base: type) -> None:
    """Register the class `base` as `model`, with an architecture for each named model of the dataclass `kind`."""
    register_model(model, dataclass=undecided(kind))(base)
    for name in (name for name, (other, _) in NAMED.items() if other is kind):
        register_model_architecture(model, name)(partial(architecture, name=name))


register("tupe", TupeConfig, TupeModel)
