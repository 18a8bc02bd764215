"""TUPE's attention in any PyTorch code, without fairseq: python examples/attention.py

query, key, value   (B, H, T, d_h), one floating type
padding             (B, T) bool, TRUE AT PADDING, as in torch.nn.MultiheadAttention's key_padding_mask
bias                (H, T, T) float32, added to the logits; computed once per batch, used by every layer
"""

import torch
from torch import nn

from tupe.attention import biased_attention
from tupe.position import BucketedRelative, PositionBias, Reset, UntiedAbsolute

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 2, 10, 64, 4, 3
HEAD = WIDTH // HEADS


class Layer(nn.Module):
    """Attention and feed-forward part, post-norm; the position terms come from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, x, bias, scale, padding):
        query, key, value = (t.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        attended = biased_attention(query, key, value, bias, key_padding_mask=padding, scale=scale)  # (B, H, T, d_h)
        x = self.norms[0](x + self.out(attended.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.feed_forward(x))


position = PositionBias(  # TUPE-R; `tupe.position` has the other terms
    UntiedAbsolute(max_positions=512, embed_dim=WIDTH, num_heads=HEADS),
    BucketedRelative(num_heads=HEADS, num_buckets=32, max_distance=128),
    Reset(num_heads=HEADS, embed_dim=WIDTH),  # position 0 is [CLS]; leave the reset out without [CLS]
)
layers = nn.ModuleList(Layer() for _ in range(LAYERS))
words = torch.randn(BATCH, LENGTH, WIDTH)  # embeddings, without positions
padding = torch.arange(LENGTH) >= torch.tensor([[LENGTH], [LENGTH - 3]])  # the second sequence is shorter

bias = position(length=LENGTH).bias
scale = position.scale(HEAD)  # 1 / sqrt(2 d_h): the logit is a sum of two products
x = words
for layer in layers:
    x = layer(x, bias, scale, padding)
(x[~padding] * torch.randn(WIDTH)).sum().backward()  # without padding

print(f"features {tuple(x.shape)}, bias {tuple(bias.shape)}")
print(f"the position table learns: gradient {position.absolute.table.weight.grad.norm():.2g}")
