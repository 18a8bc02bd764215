"""The encoder: words (and for BERT-A, positions) in; the position terms, computed once; the layers."""

from __future__ import annotations

from argparse import Namespace
from typing import Optional

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tupe.errors import UserError
from tupe.models.layer import TupeEncoderLayer
from tupe.position import BucketedRelative, ClippedRelative, PositionBias, PositionTable, Reset, UntiedAbsolute
from tupe.position.precision import compute_dtype


def build_position_bias(args: Namespace) -> PositionBias:
    """The content-free terms that the configuration names. Raises `UserError` for those that do not fit together."""
    width, heads = args.encoder_embed_dim, args.encoder_attention_heads
    cross = args.absolute == "untied_cross"
    absolute = relative = reset = None
    if args.absolute in ("untied", "untied_cross"):
        absolute = UntiedAbsolute(
            args.max_positions,
            width,
            heads,
            num_terms=4 if cross else 2,
            projection_bias=args.untied_projection_bias,
        )
    if args.relative == "bucketed":
        relative = BucketedRelative(heads, args.relative_buckets, args.relative_max_distance)
    elif args.relative == "clipped":
        relative = ClippedRelative(heads, args.relative_max_distance)
    if args.reset != "none":
        reset = Reset(heads, None if absolute is None else width, args.reset, relative is not None)
    return PositionBias(absolute, relative, reset, cross=cross)


class TupeEncoder(nn.Module):
    """Tokens to features. Sequences start with `[CLS]` (`<s>`) and are padded on the right.

    Args:
        args: the fields of `TupeConfig`.
        embed_tokens: word embeddings, with `padding_idx`.
    """

    def __init__(self, args: Namespace, embed_tokens: nn.Embedding) -> None:
        super().__init__()
        width = args.encoder_embed_dim
        self.max_positions = args.max_positions
        self.checkpoint_activations = args.checkpoint_activations
        self.embed_tokens = embed_tokens
        self.input_positions = PositionTable(args.max_positions, width) if args.absolute == "input" else None
        self.position_bias = build_position_bias(args)
        self.layernorm_embedding = nn.Identity() if args.no_layernorm_embedding else nn.LayerNorm(width)
        self.dropout = nn.Dropout(args.dropout)
        self.layers = nn.ModuleList(
            TupeEncoderLayer(args, self.position_bias.num_terms) for _ in range(args.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(width) if args.encoder_normalize_before else nn.Identity()

    def key_padding_mask(self, src_tokens: Tensor, has_padding: Optional[bool]) -> Optional[Tensor]:
        """`(B, T)`, true at padding; nothing where there is none and that is known without asking the device."""
        if has_padding is False:
            return None
        mask = src_tokens.eq(self.embed_tokens.padding_idx)
        if has_padding is None and mask.device.type == "cpu" and not mask.any():
            return None
        return mask

    def forward(
        self, src_tokens: Tensor, has_padding: Optional[bool] = None, return_all_hiddens: bool = False
    ) -> tuple[Tensor, Optional[list[Tensor]]]:
        """Features of `src_tokens`.

        Args:
            src_tokens: `(B, T)`, `T` at most `max_positions`.
            has_padding: whether any token is padding, where the caller knows; `None` to look.
            return_all_hiddens: also return the input of the first layer and the output of each.

        Returns:
            features `(B, T, d)`, and the `L + 1` hidden states `(B, T, d)` or `None`.

        Raises:
            UserError: for a sequence longer than `max_positions`.
        """
        length = src_tokens.shape[1]
        if length > self.max_positions:
            raise UserError(
                f"a sequence of {length} tokens is longer than the {self.max_positions} positions of the model: "
                "cut the input, or build the model with a larger max_positions"
            )
        mask = self.key_padding_mask(src_tokens, has_padding)
        x = self.embed_tokens(src_tokens)
        if self.input_positions is not None:
            x = x + self.input_positions(length)
        x = self.dropout(self.layernorm_embedding(x))
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0)
        position = self.position_bias(length, compute_dtype(x))  # once for all layers
        states = [x] if return_all_hiddens else None
        for layer in self.layers:
            if self.checkpoint_activations and self.training:
                x = checkpoint(layer, x, position, mask, use_reentrant=False)
            else:
                x = layer(x, position, mask)
            if states is not None:
                states.append(x)
        return self.layer_norm(x), states
