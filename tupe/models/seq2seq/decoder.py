"""The decoder of a translation: all target tokens at once in training, one by one in search."""

from argparse import Namespace

from fairseq.data import Dictionary
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from tupe.encoder.unpadded import Tokens
from tupe.layers import linear
from tupe.models.seq2seq.cross import build_cross_position
from tupe.models.seq2seq.encoder import Source
from tupe.models.seq2seq.layer import DecoderLayer, State
from tupe.models.seq2seq.stack import Stack, decoder_args


class Seq2SeqDecoder(FairseqIncrementalDecoder):
    """Decoder that maps target tokens and the source's features to vocabulary logits.

    `output` holds the output embeddings; it is `embed_tokens` if they are shared.
    """

    def __init__(
        self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding, output: nn.Embedding
    ) -> None:
        super().__init__(dictionary)
        self.cross_position = build_cross_position(args)
        self.stack = Stack(
            decoder_args(args), embed_tokens, dictionary.eos(), DecoderLayer, self.cross_position.num_terms
        )
        self.output = output

    def max_positions(self) -> float:
        return int(min(1e6, self.stack.max_positions, self.cross_position.max_positions))  # 1e6: as fairseq's encoder

    def forward(
        self, prev_output_tokens: Tensor, encoder_out: Source, incremental_state: dict | None = None, **unused: object
    ) -> tuple[Tensor, dict]:
        """Compute the logits of the token after each of `prev_output_tokens` `(N, T)`, padded on the right.

        If `incremental_state` is passed, only tokens that are not yet in it are computed, one per step of the search.

        Returns:
            `(N, T, V)`, and `{"attn": [None]}`, as fused attention returns no weights.
        """
        x, extra = self.extract_features(prev_output_tokens, encoder_out, incremental_state)
        return self.output_layer(x), extra

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: Source, incremental_state: dict | None = None, **_: object
    ) -> tuple[Tensor, dict]:
        """Compute the features `(N, T, d)`; see `forward`."""
        stack, states = self.stack, [None] * len(self.stack.layers)
        length, first = prev_output_tokens.shape[1], 0
        if incremental_state is not None:
            states = self.states(incremental_state)
            first = states[0]["key"].shape[2] if states[0] else 0
        x = stack.embed(stack.embed_tokens(prev_output_tokens[:, first:]), first=first)
        own = stack.position_bias(length - first, query_offset=first)
        cross = self.cross_position(length - first, encoder_out.features.shape[1], first)
        both = (stack.attention_inputs(terms, Tokens(), x) for terms in (own, cross))
        for layer, (position,), (cross_position,), state in zip(stack.layers, *both, states):
            x = stack.run_layer(layer, x, position, cross_position, encoder_out, state)
        return stack.layer_norm(x), {"attn": [None]}

    def output_layer(self, features: Tensor, **unused: object) -> Tensor:
        """Compute the vocabulary logits `(..., V)` of `features` `(..., d)`."""
        return linear(features, self.output.weight)

    def states(self, incremental_state: dict) -> list[State]:
        """Return the cache of each layer, empty at the first step."""
        states = self.get_incremental_state(incremental_state, "layers")
        if states is None:
            states = [{} for _ in self.stack.layers]
            self.set_incremental_state(incremental_state, "layers", states)
        return states

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Put row `new_order[n]` in row `n`. The source's keys stay: `Source` records which rows read them."""
        for state in self.states(incremental_state):
            for name in state.keys() & {"key", "value"}:
                state[name] = state[name].index_select(0, new_order)
