"""ELECTRA (Clark et al. 2020): a generator fills masked positions, and a discriminator detects replaced tokens."""

from __future__ import annotations

from argparse import Namespace
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from tupe.encoder.build import build_position_bias, embedding_width
from tupe.encoder.layer import ACTIVATIONS
from tupe.layers import Linear
from tupe.models.config import ElectraConfig
from tupe.models.heads import take_heads
from tupe.models.tupe import TupeLanguageModelEncoder, TupeModel, register
from tupe.patches.checkpoints import special_symbols
from tupe.position import UntiedAbsolute


class Detection(NamedTuple):
    """Output of both networks.

    logits: the generator's, `(M, V)`.
    tokens: the original tokens, with samples at the masked positions, `(B, T)`.
    scores: the discriminator's, above 0 for a replaced token, `(B, T)`.
    """

    logits: Tensor
    tokens: Tensor
    scores: Tensor


@torch.no_grad()
def draw(logits: Tensor, uniform: Tensor, never: Tensor, temperature: float = 1.0) -> Tensor:
    """Draw a symbol for each row from `softmax(logits / temperature)`: the first of cumulative probability > `uniform`.

    The computation is in float32 and uses only these random numbers, not the generator of a device.

    Args:
        logits: `(M, V)`.
        uniform: in [0, 1), `(M,)`.
        never: symbols that are not drawn, `(S,)`.
        temperature: above 0.

    Returns:
        symbols, `(M,)`.
    """
    scaled = logits.float().index_fill(-1, never, -torch.inf)
    scaled = (scaled - scaled.amax(-1, keepdim=True)) / temperature
    cumulated = scaled.softmax(-1).cumsum(-1)
    total = cumulated[:, -1]
    below = torch.minimum(uniform * total, total.nextafter(torch.zeros_like(total)))  # the product may round to `total`
    # non-finite logits, as after an overflow in 16 bits, give a symbol too, so that the loss reports them
    return torch.searchsorted(cumulated, below.unsqueeze(-1), right=True).squeeze(-1).clamp(max=logits.shape[-1] - 1)


class DiscriminatorHead(nn.Module):
    """A score for every token, above 0 where it was replaced: `act(x W + b) w + c`."""

    def __init__(self, embed_dim: int, activation_fn: str) -> None:
        super().__init__()
        self.dense = Linear(embed_dim, embed_dim)
        self.activation_fn = ACTIVATIONS[activation_fn]
        self.out_proj = Linear(embed_dim, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Compute the scores `(...)` of `features` `(..., d)`."""
        return self.out_proj(self.activation_fn(self.dense(features))).squeeze(-1)


def generator_args(args: Namespace) -> Namespace:
    """Return the generator's configuration: the discriminator's depth, head width and embeddings, at its own width."""
    width, heads = args.encoder_embed_dim, args.encoder_attention_heads
    head = width // heads
    narrow = round(args.generator_size * width)
    return Namespace(
        **{
            **vars(args),
            "embedding_dim": embedding_width(args),
            "encoder_embed_dim": narrow,
            "encoder_attention_heads": narrow // head,
            "encoder_ffn_embed_dim": round(args.encoder_ffn_embed_dim * narrow / width),
        }
    )


def build_networks(args: Namespace, dictionary: Dictionary) -> tuple[TupeLanguageModelEncoder, ...]:
    """Build discriminator and generator, which share parameters.

    They share token, position and segment embeddings with their layer norm, and the position terms that
    `share_positions` names. Otherwise each network has its own projections, relative values and low-rank factors.
    """
    discriminator, gen_args = TupeLanguageModelEncoder(args, dictionary, with_head=False), generator_args(args)
    generator = TupeLanguageModelEncoder(gen_args, dictionary)
    disc, gen = discriminator.sentence_encoder, generator.sentence_encoder
    for name in ("embed_tokens", "input_positions", "input_segments", "layernorm_embedding"):
        setattr(gen, name, getattr(disc, name))
    if not args.untie_weights_roberta:
        generator.lm_head.weight = disc.embed_tokens.weight
    if args.share_positions == "table":
        for name in ("table", "layer_norm"):
            setattr(gen.position_bias.absolute, name, getattr(disc.position_bias.absolute, name))
        if disc.position_bias.reset is not None:
            gen.position_bias.reset.vectors = disc.position_bias.reset.vectors
    elif args.share_positions == "all":
        assert gen_args.encoder_embed_dim == args.encoder_embed_dim, "share_positions=all needs generator_size=1"
        gen.position_bias, gen.segment_attention = disc.position_bias, disc.segment_attention
        for layer, other in zip(gen.layers, disc.layers):
            layer.self_attn.relative = other.self_attn.relative
    elif isinstance(disc.position_bias.absolute, UntiedAbsolute):  # its own table is as wide as the generator
        gen.position_bias = build_position_bias(Namespace(**{**vars(gen_args), "embedding_dim": 0}))
    return discriminator, generator


class ElectraModel(TupeModel):
    """A discriminator, `encoder` with `discriminator_head`, and a generator of the same system.

    As a `TupeModel` it returns the discriminator's features and classification scores, and the generator's vocabulary
    logits. A tensor that both share is in the state dict once, under the encoder's name. The models are
    named `electra_<system>_<size>`.
    """

    def __init__(self, args: Namespace, encoder: TupeLanguageModelEncoder, generator: TupeLanguageModelEncoder) -> None:
        super().__init__(args, encoder)
        self.generator = generator
        self.discriminator_head = DiscriminatorHead(args.encoder_embed_dim, args.activation_fn)
        for module in (self.generator, self.discriminator_head):
            module.apply(init_bert_params)
        nn.init.xavier_uniform_(self.discriminator_head.out_proj.weight)  # as ELECTRA's code
        never = [number for number, special in enumerate(special_symbols(encoder.dictionary)) if special]
        self.register_buffer("never", torch.tensor(never), persistent=False)  # special symbols would move segments
        self.num_updates = 0
        self._register_state_dict_hook(_saved_once)
        self._register_load_state_dict_pre_hook(_loaded_into_both, with_module=True)

    networks = staticmethod(build_networks)

    def set_num_updates(self, num_updates: int) -> None:
        """Store the number, on which the criterion's random numbers depend; fairseq calls this before every update."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        original: Tensor | None = None,
        **kwargs: object,
    ) -> Detection | tuple[Tensor, dict]:
        """Compute `TupeModel.forward` or, if `original` is passed, `detect`.

        Both are in this method because wrappers for several processes call only this one.
        """
        if original is not None:
            return self.detect(src_tokens, original, **kwargs)
        if features_only or classification_head_name is not None:
            return super().forward(src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs)
        return self.generator(src_tokens, False, return_all_hiddens, **kwargs)

    def detect(
        self,
        src_tokens: Tensor,
        original: Tensor,
        masked_tokens: Tensor,
        uniform: Tensor,
        temperature: float = 1.0,
        num_tokens: int | None = None,
        pairs: bool | None = None,
    ) -> Detection:
        """Let the generator fill `src_tokens` and the discriminator score the result, without a gradient between them.

        No special symbol is drawn, so padding and segments are those of the original.

        Args:
            src_tokens: tokens with masks, `(B, T)`.
            original: the tokens without masks, `(B, T)`.
            masked_tokens: where tokens are sampled, `M` indices into the `B * T` tokens.
            uniform: random numbers in [0, 1) of the samples, `(M,)`.
            temperature: temperature of the softmax that they are drawn from.
            num_tokens: number of tokens that are not padding, if known.
            pairs: whether any sequence has two segments, if known.
        """
        known = {"num_tokens": num_tokens, "pairs": pairs}
        options = {"masked_tokens": masked_tokens, **known}
        logits = self.generator(src_tokens, **options)[0]
        drawn = draw(logits, uniform, self.never, temperature)
        tokens = original.flatten().index_copy(0, masked_tokens, drawn).view_as(original)
        scores, _ = self.encoder(tokens, features_only=True, head=self.discriminator_head, **known)
        return Detection(logits, tokens, scores)

    def aliases(self) -> dict[str, str]:
        """Map each additional name of a shared parameter to its name in the state dict."""
        first = {parameter: name for name, parameter in self.named_parameters()}
        every = self.named_parameters(remove_duplicate=False)
        return {name: first[parameter] for name, parameter in every if first[parameter] != name}

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Adapt the heads of a checkpoint. It must have both networks."""
        take_heads(self, state_dict, f"{name}." if name else "")


def _saved_once(model: ElectraModel, state: dict, prefix: str, *_: object) -> None:
    for name in model.aliases():
        state.pop(prefix + name, None)


def _loaded_into_both(model: ElectraModel, state: dict, prefix: str, *_: object) -> None:
    for name, first in model.aliases().items():
        if prefix + first in state:
            state.setdefault(prefix + name, state[prefix + first])


register("electra", ElectraConfig, ElectraModel)
