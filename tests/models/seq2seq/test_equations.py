"""The logits of every system, against an evaluation in float64 with its own loops; see `tupe.systems`."""

import math

import pytest
import torch

from tests.models.seq2seq.conftest import CASES, SMALL
from tupe.systems import SEQ2SEQ_SYSTEMS

HEADS, WIDTH = SMALL["encoder_attention_heads"], SMALL["encoder_embed_dim"]
D_H = WIDTH // HEADS
CAUSAL_STARTS = (*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)  # of T5's decoder
STARTS = (*range(9), 12, 16, 23, 32, 46, 64, 91)  # of each side of its encoder


def bucket(distance, causal):
    """Of `distance = j - i`."""
    starts = CAUSAL_STARTS if causal else STARTS
    return max(k for k, start in enumerate(starts) if start <= abs(distance)) + 16 * (distance > 0)


def norm(module, x):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + module.eps).sqrt() * module.weight + module.bias


class Expected:
    """The specification, one sentence and one number at a time."""

    def __init__(self, model, system, changed):
        self.model, fields = model, {**SEQ2SEQ_SYSTEMS[system], **changed}
        self.pre_norm = fields.get("encoder_normalize_before", False)
        self.normed, self.biased = not fields.get("no_untied_layer_norm"), fields.get("untied_projection_bias")
        self.cross_kind = fields.get("cross_position", "none")
        self.rotary = D_H if fields.get("rotary_dims", 0) == -1 else fields.get("rotary_dims", 0)
        self.far = fields.get("relative_max_distance", 128) if system != "shaw" else 3
        self.kinds = {
            causal: {
                name: fields[name] if not causal or fields.get(f"decoder_{name}", "same") == "same"
                else fields[f"decoder_{name}"] for name in ("absolute", "relative", "sharing")
            } for causal in (False, True)
        }  # fmt: skip

    def embed(self, side, tokens):
        stack, kind = side.stack, self.kinds[side is self.model.decoder]["absolute"]
        x = math.sqrt(WIDTH) * stack.embed_tokens.weight[tokens]
        if kind == "input":
            return x + stack.input_positions.weight[: len(x)]
        if kind == "sinusoidal":
            half = WIDTH // 2
            for i in range(len(x)):
                for c in range(half):  # float32, as fairseq computes them
                    angle = torch.tensor(float(i + 2)) * torch.exp(torch.tensor(c * -math.log(10000) / (half - 1)))
                    x[i, c] += angle.sin().double()
                    x[i, half + c] += angle.cos().double()
        return x

    def set_of(self, kinds, layer, head):
        return {"none": layer * HEADS + head, "layer": head, "head": layer}[kinds["sharing"]]

    def untied(self, term, s, i, j):
        rows = slice(s * D_H, (s + 1) * D_H)
        two_sided = hasattr(term, "key_table")
        key_table, key_norm = (term.key_table, term.key_layer_norm) if two_sided else (term.table, term.layer_norm)
        sides = (term.query, term.layer_norm, term.table.weight[i]), (term.key, key_norm, key_table.weight[j])
        query, key = (
            side.weight[rows] @ (norm(layer_norm, p) if self.normed else p) + (side.bias[rows] if self.biased else 0)
            for side, layer_norm, p in sides
        )
        return query @ key / math.sqrt(2 * D_H)

    def free(self, terms, kinds, causal, s, i, j):
        """What does not depend on the words."""
        out = 0.0
        if kinds["absolute"] == "untied":
            out = out + self.untied(terms.absolute, s, i, j)
        if kinds["absolute"] == "low_rank":
            out = out + terms.absolute.query[s, i] @ terms.absolute.key[s, j]
        if kinds["relative"] == "bucketed":
            out = out + terms.relative.weight[bucket(j - i, causal), s]
        if kinds["relative"] == "unbinned":
            out = out + terms.relative.weight[i - j if causal else 15 + j - i, s]  # 16 positions of the source
        if kinds["relative"] in ("alibi", "kerple", "fire"):
            out = out + self.by_distance(terms.relative, kinds["relative"], s, j - i)
        if kinds["relative"] == "clipped":
            out = out + terms.relative.weight[max(-self.far, min(self.far, j - i)) + self.far, s]
        return out

    def by_distance(self, term, relative, s, d):
        """ALiBi, KERPLE-log and FIRE at the distance `d`."""
        side = int(d > 0)
        if relative == "alibi" and term.slope is None:
            return -((2**-4, 2**-8, 2**-2)[s % HEADS]) * abs(d)
        if relative == "alibi":
            return -math.log1p(math.exp(term.slope[side, s])) * abs(d)
        if relative == "kerple":
            p, a = (0.01 + math.log1p(math.exp(x[side, s])) for x in (term.height, term.rate))
            return -p * math.log(a * abs(d) + 1)
        c, end = abs(term.rate.item()), 64 * abs(term.length.item())
        u = min(1.0, math.log(c * abs(d) + 1) / (math.log(c * end + 1) + 1e-6)) * ((d > 0) - (d < 0))
        return term.out_bias[s] + term.out_weight[s] @ (term.hidden_weight * u + term.hidden_bias).clamp(min=0)

    def turned(self, x):
        """Each plane of the columns `c` and `c + r/2` of each head by `i theta_c`, as complex numbers."""
        out, half = x.clone(), self.rotary // 2
        for i in range(len(x)):
            for first in range(0, WIDTH, D_H):
                for c in range(half):
                    angle = i * 10_000 ** (-c / half)
                    point = complex(x[i, first + c], x[i, first + c + half]) * complex(math.cos(angle), math.sin(angle))
                    out[i, first + c], out[i, first + c + half] = point.real, point.imag
        return out

    def attention(self, attention, x, y, products, free, causal, shaw):
        """`x` `(n, d)` to the words of `y` `(m, d)`; `free(head, i, j)`."""
        weight, bias = attention.qkv_proj.weight.split(WIDTH), attention.qkv_proj.bias.split(WIDTH)
        query, key, value = (z @ w.t() + b for z, w, b in zip((x, y, y), weight, bias))
        if y is x:
            query, key = self.turned(query), self.turned(key)
        out = torch.zeros_like(x)
        for head in range(HEADS):
            columns = slice(head * D_H, (head + 1) * D_H)
            for i in range(len(x)):
                keys = range(i + 1 if causal else len(y))
                clipped = [max(-self.far, min(self.far, j - i)) + self.far for j in keys]
                logits = []
                for j, row in zip(keys, clipped):
                    k = key[j, columns] + (attention.relative.key[row] if shaw else 0)
                    logits.append(query[i, columns] @ k / math.sqrt(products * D_H) + free(head, i, j))
                weights = torch.stack(logits).exp()
                weights = weights / weights.sum()
                for j, row, w in zip(keys, clipped, weights):
                    v = value[j, columns]
                    if shaw and attention.relative.value is not None:
                        v = v + attention.relative.value[row]
                    out[i, columns] += w * v
        return out @ attention.out_proj.weight.t() + attention.out_proj.bias

    def residual(self, x, part, layer_norm):
        return x + part(norm(layer_norm, x)) if self.pre_norm else norm(layer_norm, x + part(x))

    def self_attention(self, stack, causal, index, x):
        kinds, layer = self.kinds[causal], stack.layers[index]
        products = 2 if kinds["absolute"] == "untied" else 1

        def free(head, i, j):
            return self.free(stack.position_bias, kinds, causal, self.set_of(kinds, index, head), i, j)

        shaw = kinds["relative"] == "shaw"
        return self.residual(
            x, lambda x: self.attention(layer.self_attn, x, x, products, free, causal, shaw), layer.self_attn_layer_norm
        )

    def cross_attention(self, index, x, memory):
        layer, cross = self.model.decoder.stack.layers[index], self.model.decoder.cross_position
        products = 2 if self.cross_kind == "untied" else 1

        def free(head, i, j):
            s = self.set_of(self.kinds[True], index, head)
            if self.cross_kind == "untied":
                return self.untied(cross.absolute, s, i, j)
            if self.cross_kind == "low_rank":
                return cross.absolute.query[s, i] @ cross.absolute.key[s, j]
            return cross.relative.weight[bucket(j - i, False), s] if self.cross_kind == "diagonal" else 0.0

        return self.residual(
            x,
            lambda x: self.attention(layer.encoder_attn, x, memory, products, free, False, False),
            layer.encoder_attn_layer_norm,
        )

    def feed_forward(self, layer, x):
        def part(x):
            inner = (x @ layer.fc1.weight.t() + layer.fc1.bias).clamp(min=0)
            return inner @ layer.fc2.weight.t() + layer.fc2.bias

        return self.residual(x, part, layer.final_layer_norm)

    def last(self, stack, x):
        return norm(stack.layer_norm, x) if self.pre_norm else x

    def __call__(self, source, previous):
        encoder, decoder = self.model.encoder.stack, self.model.decoder.stack
        memory = self.embed(self.model.encoder, source)
        for index, layer in enumerate(encoder.layers):
            memory = self.feed_forward(layer, self.self_attention(encoder, False, index, memory))
        memory = self.last(encoder, memory)
        x = self.embed(self.model.decoder, previous)
        for index, layer in enumerate(decoder.layers):
            x = self.cross_attention(index, self.self_attention(decoder, True, index, x), memory)
            x = self.feed_forward(layer, x)
        return self.last(decoder, x) @ self.model.decoder.output.weight.t()


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_logits_are_the_equation(case, build, source, previous):
    system, fields = CASES[case]
    model = build(system, **fields).double()
    logits = model(source, None, previous)[0]
    expected = Expected(model, system, fields)
    for row, length in ((0, 9), (1, 6)):
        torch.testing.assert_close(logits[row], expected(source[row, :length], previous[row]), rtol=1e-6, atol=1e-6)


def test_parameters_of_the_positions(build):
    """The specification's counts for 6 + 6 layers, 8 heads of width 64, 1024 positions."""
    base = {"encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8, "encoder_embed_dim": 512,
            "encoder_ffn_embed_dim": 8, "max_source_positions": 1024, "max_target_positions": 1024}  # fmt: skip

    def count(system, **fields):
        model = build(system, **{**base, **fields})
        return [
            sum(p.numel() for name, p in side.named_parameters() if "position_bias" in name or "relative" in name)
            for side in (model.encoder, model.decoder)
        ]

    assert count("diet_rel") == [98_256, 49_152]
    assert count("t5") == [32 * 8, 32 * 8]
    assert count("shaw", relative_max_distance=16, shaw_values=False) == [6 * 33 * 64, 6 * 17 * 64]
