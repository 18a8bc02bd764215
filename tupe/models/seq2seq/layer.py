"""A decoder layer: a causal encoder layer, with attention to the source between its two parts."""

from argparse import Namespace

import torch
from torch import Tensor, nn

from tupe.encoder.layer import Attention, AttentionInputs, Layer, SelfAttention
from tupe.models.seq2seq.encoder import Source
from tupe.position.terms import Terms

#: Tensors that a layer keeps between the steps of decoding: `key` and `value` of the target so far, `(N, H, t, d_h)`,
#: and `source_key` and `source_value` of the sentences, `(S, H, n_s, d_h)`.
State = dict[str, Tensor]


class CausalSelfAttention(SelfAttention):
    """Attention from each position to itself and to earlier positions."""

    bidirectional = False

    def forward(self, x: Tensor, position: AttentionInputs, state: State | None = None) -> Tensor:
        """Attend from `x` `(N, T, d)` to itself and to the positions in `state`, to which those of `x` are added."""
        query, key, value = self.heads(self.project(x), position.terms, None)  # N H T d_h
        if state is not None:
            if "key" in state:
                key = torch.cat((state["key"], key), 2)
                value = torch.cat((state["value"], value), 2)
            state["key"], state["value"] = key, value
        causal = query.shape[2] > 1  # a single query is the last, and sees all keys
        return self.out_proj(self.attend(query, key, value, position.terms, position.bias, None, causal))


class CrossAttention(Attention):
    """Attention of the target to the source."""

    def forward(self, x: Tensor, position: AttentionInputs, source: Source, state: State | None = None) -> Tensor:
        """Attend from `x` `(N, T, d)` to the source, whose keys and values `state` caches."""
        query, state = self.query(x), {} if state is None else state
        if "source_key" not in state:
            state["source_key"], state["source_value"] = self.key_value(source.features)
        key, value, padding = map(source.choose, (state["source_key"], state["source_value"], source.padding))
        bias = position.bias
        beam = source.beam if query.shape[2] == 1 else 1
        if beam > 1:  # the queries of a sentence's hypotheses are one row, all at one position
            bias = bias.bias if isinstance(bias, Terms) else bias
            query = query.view(-1, beam, self.num_heads, query.shape[-1]).transpose(1, 2)
        elif source.beam > 1:
            key, value, padding = (
                None if t is None else t.repeat_interleave(source.beam, 0) for t in (key, value, padding)
            )
        return self.out_proj(self.attend(query, key, value, position.terms, bias, padding)).reshape(x.shape)


class DecoderLayer(Layer):
    """Causal attention, attention to the source and feed-forward part, each with its residual; post- or pre-norm.

    Args:
        args: the fields of the decoder's stack.
        num_terms: number of products that the logit of the causal attention sums.
        cross_terms: number of products that the logit of the attention to the source sums.
    """

    attention = CausalSelfAttention

    def __init__(self, args: Namespace, num_terms: int, cross_terms: int) -> None:
        super().__init__(args, num_terms)
        self.encoder_attn = CrossAttention(args, cross_terms)
        self.encoder_attn_layer_norm = nn.LayerNorm(args.encoder_embed_dim, args.layer_norm_eps)

    def forward(
        self,
        x: Tensor,
        position: AttentionInputs,
        cross_position: AttentionInputs,
        source: Source,
        state: State | None = None,
    ) -> Tensor:
        """Compute the layer for `x` `(N, T, d)`; see `CausalSelfAttention` for `state`."""
        x = self.residual(lambda x: self.self_attn(x, position, state), x, self.self_attn_layer_norm)
        x = self.residual(
            lambda x: self.encoder_attn(x, cross_position, source, state), x, self.encoder_attn_layer_norm
        )
        return self.residual(self.feed_forward, x, self.final_layer_norm)
