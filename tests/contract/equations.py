"""The papers' equations in float64, written apart from the package: parameters by the state dict's names, and no more.

A `spec` has what the paper says of a system, `DEFAULTS` the rest. Distances are `j - i`, key minus query. Parameters of
positions come in sets: one a head, one a layer, or one a head of each layer (`sharing`).
"""

import math
from functools import partial

import torch
import torch.nn.functional as F

from tests.contract.fixtures.cases import DEFAULTS

PAD, EOS = 1, 2
SLOPES = (2**-4, 2**-8, 2**-2)  # ALiBi's for three heads: both of two heads, and the first of four
STARTS = (*range(9), 12, 16, 23, 32, 46, 64, 91)  # the first distance of each of T5's buckets, on one side
CAUSAL_STARTS = (*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)  # of its decoder

#: The bucket of each distance in DeBERTa, by the number of buckets, for the farthest distance 9.
DEBERTA = {6: [0, 1, 2, 3, 4, 5, 5, 5, 5, 6]}


class Names:
    """The parameters whose names begin with `prefix`; those in `elsewhere` are found behind another prefix."""

    def __init__(self, weights, prefix, elsewhere=()):
        self.weights, self.prefix, self.elsewhere = weights, prefix, dict(elsewhere)

    def full(self, name):
        return next((there for start, there in self.elsewhere.items() if name.startswith(start)), self.prefix) + name

    def __contains__(self, name):
        return self.full(name) in self.weights

    def __getitem__(self, name):
        return self.weights[self.full(name)]

    def linear(self, name, x):
        return x @ self[f"{name}.weight"].t() + self.weights.get(self.full(f"{name}.bias"), 0)

    def norm(self, name, x, eps):
        if f"{name}.weight" not in self:
            return x
        return F.layer_norm(x, x.shape[-1:], self[f"{name}.weight"], self.weights.get(self.full(f"{name}.bias")), eps)


def activation(name, x):
    return {"gelu": F.gelu, "relu": F.relu}[name](x)


def in_heads(x, width):
    """`(..., n, H w)` to `(..., H, n, w)`."""
    return x.unflatten(-1, (-1, width)).transpose(-2, -3)


def distances(n, m):
    return torch.arange(m) - torch.arange(n)[:, None]


def bucket(distance, causal):
    starts, after = (CAUSAL_STARTS, 0) if causal else (STARTS, 16 * (distance > 0))
    away = max(0, -distance) if causal else abs(distance)
    return max(k for k, start in enumerate(starts) if start <= away) + after


class Stack:
    """A stack of layers: `names` begin where its embeddings and its `layers.` do."""

    def __init__(self, names, spec):
        self.w, self.spec = names, {**DEFAULTS, **spec}
        self.width = len(self.w["layers.0.self_attn.out_proj.weight"])
        self.heads, self.eps = self.spec["heads"], self.spec["layer_norm_eps"]
        self.d_h = self.width // self.heads
        self.layers = sum(f"layers.{layer}.fc1.weight" in self.w for layer in range(9))
        self.number = 1 + max(self.sets(self.layers - 1))  # of sets

    def products(self):
        own = {"untied": 2, "untied_cross": 4}.get(self.spec["absolute"], 1)
        return own + 2 * (self.spec["relative"] == "deberta")

    def sets(self, layer):
        """The number of the set of position parameters of each head of this layer."""
        sharing, heads = self.spec["sharing"], range(self.heads)
        return [layer if sharing == "head" else h + layer * self.heads * (sharing == "none") for h in heads]

    def projected(self, side, vectors):
        """Untied vectors in sets, `(S, n, d_h)`."""
        normed = self.w.norm("position_bias.absolute.layer_norm", vectors, self.eps)
        return in_heads(self.w.linear(f"position_bias.absolute.{side}", normed), self.d_h)

    def absolute(self, n):
        kind, name = self.spec["absolute"], "position_bias.absolute"
        if kind == "untied":
            p = self.w[f"{name}.table.weight"][:n]
            return self.projected("query", p) @ self.projected("key", p).mT / math.sqrt(self.products() * self.d_h)
        if kind in ("low_rank", "low_rank_input"):
            key = self.w[f"{name}.key"]
            return self.w[f"{name}.query"][:, :n] @ (key if self.spec["linformer"] else key[:, :n]).mT
        if kind == "free":
            return self.w[f"{name}.weight"][:, :n, :n]
        return torch.zeros(self.number, n, 1)

    def by_distance(self, d):
        """The relative term of each distance of `d` `(D,)`: `(D, S)`."""
        kind, causal, far = self.spec["relative"], self.spec["causal"], self.spec["relative_max_distance"]
        d = d.double() if kind in ("alibi", "kerple", "fire") else d
        side, away = (d > 0).long() * (not causal), d.abs()[:, None]
        w = Names(self.w.weights, self.w.full("position_bias.relative."))
        if kind == "bucketed":
            return w["weight"][[bucket(x, causal) for x in d.tolist()]]
        if kind == "clipped":
            return w["weight"][d.clamp(-far, far) + far]
        if kind == "unbinned":
            return w["weight"][(-d).clamp(min=0) if causal else d + len(w["weight"]) // 2]
        if kind == "parametric":
            products = w.linear("query", w["weight"]) * w.linear("key", w["weight"])
            return products.unflatten(-1, (-1, self.d_h)).sum(-1)[d.clamp(-far, far) + far]
        if kind == "alibi":
            fixed = torch.tensor([SLOPES[s % self.heads] for s in range(self.number)], dtype=torch.float64)
            return -away * (F.softplus(w["slope"])[side] if "slope" in w else fixed)
        if kind == "dual_triangle":
            sides = torch.stack((d > 0, d < 0), 1).double() * -1e9
            return sides[:, [s % 2 for s in range(self.number)]]
        if kind == "kerple":
            height, rate = (0.01 + F.softplus(w[name])[side] for name in ("height", "rate"))
            return -height * torch.log1p(rate * away)
        rate, end = w["rate"].abs(), 64 * w["length"].abs()  # of FIRE
        share = d.sign()[:, None] * (torch.log1p(rate * away) / (torch.log1p(rate * end) + 1e-6)).clamp(max=1)
        hidden = (share * w["hidden_weight"] + w["hidden_bias"]).clamp(min=0)
        return hidden @ w["out_weight"].t() + w["out_bias"]

    def free_of_words(self, n):
        """All terms that no word changes, `(S, n, n)`, or `(S, n, 1)` where there is none."""
        bias = self.absolute(n)
        if self.spec["relative"] not in ("none", "shaw", "deberta", "pope"):
            relative = self.by_distance(torch.arange(1 - n, n))[distances(n, n) + n - 1]
            bias = bias + relative.permute(2, 0, 1)
        if not self.spec["reset"]:
            return bias
        if self.spec["absolute"] == "untied":
            p = self.w["position_bias.reset.vectors"]
            theta = (self.projected("query", p) * self.projected("key", p)).sum(-1).t()
            theta = theta / math.sqrt(self.products() * self.d_h)
        else:
            theta = self.w["position_bias.reset.scalars"]
        if self.spec["reset"] == "release":
            theta = theta + self.w["position_bias.reset.relative"]
        bias = torch.cat((theta[1][:, None, None].expand(-1, n, 1), bias[:, :, 1:]), 2)
        return torch.cat((theta[0][:, None, None].expand(-1, 1, n), bias[:, 1:]), 1)

    def segments(self, tokens):
        """The second segment begins at the second `</s>` of a pair, or between the two of `<s> a </s> b </s>`."""
        after = F.pad(tokens == EOS, (1, 0))[:, :-1]
        begins = after & (tokens == EOS if self.spec["pair_separators"] == 2 else tokens != PAD)
        if self.spec["pair_separators"] == 1:
            ends = [[at for at, token in enumerate(row) if token == EOS] for row in tokens.tolist()]
            whole = [len(found) == 2 and found[1] + 1 == size for found, size in zip(ends, (tokens != PAD).sum(1))]
            begins &= torch.tensor(whole)[:, None]
        return begins.cumsum(1).clamp(max=1)

    def local(self, layer):
        """Tell whether a layer has the window: all but every `global_every`-th, from the first."""
        every = self.spec["global_every"]
        return self.spec["attention_window"] > 0 and (not every or layer % every != 0)

    def base(self, layer):
        return (self.local(layer) and self.spec["local_rotary_base"]) or self.spec["rotary_base"]

    def turn(self, x, layer):
        """The plane of the columns `c` and `c + r/2` by the angle `i base^(-2c/r)`."""
        r = self.spec["rotary_dims"] % (self.d_h + 1)  # -1 is all
        power = -2 * torch.arange(r // 2, dtype=torch.float64) / r
        angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * self.base(layer) ** power
        a, b = x[..., : r // 2], x[..., r // 2 : r]
        turned = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), x[..., r:])
        return torch.cat(turned, -1)

    def polar(self, query, key, layer):
        """PoPE's products of lengths and of the cosine of the angle between: `(B, H, n, n)`."""
        n, delta = query.shape[-2], self.w["position_bias.phases.delta"][self.sets(layer)]
        theta = self.base(layer) ** (-torch.arange(self.d_h, dtype=torch.float64) / self.d_h)
        angle = distances(n, n)[:, :, None] * theta + delta[:, None, None]  # h i j d
        length = [torch.log1p(x.exp()) for x in (query, key)]
        return torch.einsum("bhid,bhjd,hijd->bhij", *length, angle.cos())

    def disentangled(self, query, key, name):
        """DeBERTa's two terms: each word asks the row of `i - j`, and each of these rows asks a word."""
        p = self.w["position_bias.embeddings.table.weight"]
        p = self.w.norm("position_bias.embeddings.layer_norm", p, self.eps)
        of_query, of_key, _ = (in_heads(part, self.d_h) for part in self.w.linear(f"{name}.qkv_proj", p).chunk(3, -1))
        n = query.shape[-2]
        away = -distances(n, n)
        if self.spec["relative_buckets"]:
            buckets = torch.tensor(DEBERTA[self.spec["relative_buckets"]])
            away = away.sign() * buckets[away.abs().clamp(max=len(buckets) - 1)]
        row = (away + len(p) // 2).clamp(0, len(p) - 1)
        asked = torch.einsum("bhid,hijd->bhij", query, of_key[:, row])
        return asked + torch.einsum("bhjd,hijd->bhij", key, of_query[:, row])

    def attention(self, name, x, y, layer, term, hidden, products):
        """From `x` `(B, n, d)` to `y` `(B, m, d)`, with `term` `(B or 1, H, n, m)` and `hidden` likewise."""
        w, itself = self.w, x is y
        biases = w[f"{name}.qkv_proj.bias"].chunk(3) if f"{name}.qkv_proj.bias" in w else (0, 0, 0)
        parts = zip((x, y, y), w[f"{name}.qkv_proj.weight"].chunk(3), biases)
        query, key, value = (in_heads(x @ weight.t() + bias, self.d_h) for x, weight, bias in parts)
        if itself and self.spec["rotary_dims"]:
            query, key = self.turn(query, layer), self.turn(key, layer)
        if itself and self.spec["absolute"] == "untied_cross":
            p, sets = self.w["position_bias.absolute.table.weight"][: x.shape[1]], self.sets(layer)
            query, key = query + self.projected("query", p)[sets], key + self.projected("key", p)[sets]
        logits, shaw = query @ key.mT, itself and self.spec["relative"] == "shaw"
        if itself and self.spec["relative"] == "pope":
            logits = self.polar(query, key, layer)
        if shaw:
            n, far = query.shape[-2], self.spec["relative_max_distance"]
            row = distances(n, n).clamp(-far, 0 if self.spec["causal"] else far) + far
            logits = logits + torch.einsum("bhid,ijd->bhij", query, w[f"{name}.relative.key"][row])
        if itself and self.spec["relative"] == "deberta":
            logits = logits + self.disentangled(query, key, name)
        logits = logits / math.sqrt((self.spec["content_terms"] or products) * self.d_h)
        weights = (logits + term).masked_fill(hidden, -math.inf).softmax(-1)
        out = weights @ value
        if shaw and f"{name}.relative.value" in w:
            out = out + torch.einsum("bhij,ijd->bhid", weights, w[f"{name}.relative.value"][row])
        return w.linear(f"{name}.out_proj", out.transpose(1, 2).flatten(2))

    def residual(self, part, x, norm):
        if self.spec["encoder_normalize_before"]:
            return x + part(self.w.norm(norm, x, self.eps))
        return self.w.norm(norm, x + part(x), self.eps)

    def feed_forward(self, name, x):
        x = self.w.linear(f"{name}.fc1", x)
        x, gate = x.chunk(2, -1) if self.spec["gated"] else (x, 1)
        return self.w.linear(f"{name}.fc2", activation(self.spec["activation_fn"], x) * gate)

    def run(self, x, padding, tokens=None, between=None):
        """The layers, and the norm after them; `between` is the attention to a source."""
        n, free = x.shape[1], self.free_of_words(x.shape[1])
        away = distances(n, n)
        hidden = padding[:, None, None, :] & (away != 0)  # padding sees itself: nothing at all has no softmax
        if self.spec["causal"]:
            hidden = hidden | (away > 0)
        far = away.abs() > self.spec["attention_window"]
        if not self.spec["global_every"]:  # `[CLS]` sees all, and all see it
            far[0], far[:, 0] = False, False
        for layer in range(self.layers):
            name = f"layers.{layer}"
            bias = free[self.sets(layer)]
            if self.spec["segment"] == "per_head":
                values, s = self.w["segment_attention.weight"].flatten(0, 1)[self.sets(layer)], self.segments(tokens)
                bias = bias + values[:, s[:, :, None], s[:, None, :]].transpose(0, 1)

            seen = hidden | far if self.local(layer) else hidden

            def attend(x, name=f"{name}.self_attn", layer=layer, bias=bias, hidden=seen):
                if not self.spec["linformer"]:
                    return self.attention(name, x, x, layer, bias, hidden, self.products())
                mixed = self.w[f"{name}.projection.weight"][:, :n] @ x.masked_fill(padding[:, :, None], 0)
                return self.attention(name, x, mixed, layer, bias, torch.tensor(False), 1)

            x = self.residual(attend, x, f"{name}.self_attn_layer_norm")
            x = x if between is None else between(self, layer, x)
            x = self.residual(partial(self.feed_forward, name), x, f"{name}.final_layer_norm")
        return self.w.norm("layer_norm", x, self.eps)


def encoder(names, spec, tokens):
    """The features `(B, n, d)` of an encoder."""
    stack, n = Stack(names, spec), tokens.shape[1]
    x = names["embed_tokens.weight"][tokens]
    if stack.spec["absolute"] in ("input", "low_rank_input"):
        x = x + names["input_positions.weight"][:n]
    if stack.spec["segment"] == "input":
        x = x + names["input_segments.weight"][stack.segments(tokens)]
    x = names.norm("layernorm_embedding", x, stack.spec["layer_norm_eps"])
    if "embedding_projection.weight" in names:
        x = names.linear("embedding_projection", x)
    return stack.run(x, tokens == PAD, tokens)


def words(head, table, spec, features):
    """The logits `(..., V)` of a language-model head, whose output embeddings are `table`."""
    spec = {**DEFAULTS, **spec}
    x = activation(spec["activation_fn"], head.linear("dense", features))
    return head.norm("layer_norm", x, spec["layer_norm_eps"]) @ table.t() + head["bias"]


def embedded(names, spec, tokens):
    """The input of a translator's stack: scaled words, and learnt positions or fairseq's sinusoids."""
    table, n = names["embed_tokens.weight"], tokens.shape[1]
    width, kind = table.shape[1], spec.get("absolute")
    x = math.sqrt(width) * table[tokens]
    if kind == "input":
        x = x + names["input_positions.weight"][:n]
    if kind == "sinusoidal":
        half = width // 2
        rate = torch.exp(torch.arange(half, dtype=torch.float64) * -math.log(10_000) / (half - 1))
        angle = torch.arange(2, n + 2, dtype=torch.float64)[:, None] * rate
        x = x + torch.cat((angle.sin(), angle.cos()), -1)
    return x


def translator(weights, spec, source, previous):
    """The logits `(B, n, V)` of an encoder-decoder, all of whose embeddings are one table."""
    shared = {"embed_tokens.": "encoder.stack."}
    ours, theirs = Names(weights, "encoder.stack."), Names(weights, "decoder.stack.", shared)
    cross = Names(weights, "decoder.cross_position.")
    spec = {"activation_fn": "relu", **spec}
    padding, kind = source == PAD, spec.get("cross_position")
    memory = Stack(ours, spec).run(embedded(ours, spec, source), padding)
    n, m, products = previous.shape[1], source.shape[1], 2 if kind == "untied" else 1

    def side(stack, name, table, norm, length):
        vectors = cross.norm(f"absolute.{norm}", cross[f"absolute.{table}.weight"][:length], stack.eps)
        return in_heads(cross.linear(f"absolute.{name}", vectors), stack.d_h)

    def position(stack):
        """The term of a position in each text, `(S, n, m)`."""
        if kind == "low_rank":
            return cross["absolute.query"][:, :n] @ cross["absolute.key"][:, :m].mT
        if kind == "untied":
            query = side(stack, "query", "table", "layer_norm", n)
            key = side(stack, "key", "key_table", "key_layer_norm", m)
            return query @ key.mT / math.sqrt(products * stack.d_h)
        if kind == "diagonal":
            rows = [[bucket(d, False) for d in row] for row in distances(n, m).tolist()]
            return cross["relative.weight"][torch.tensor(rows)].permute(2, 0, 1)
        return torch.zeros(stack.number, n, 1)

    def between(stack, layer, x):
        name, term, hidden = f"layers.{layer}.encoder_attn", position(stack)[stack.sets(layer)], padding[:, None, None]

        def attend(x):
            return stack.attention(name, x, memory, layer, term, hidden, products)

        return stack.residual(attend, x, f"{name}_layer_norm")

    decoder = Stack(theirs, {**spec, "causal": True})
    features = decoder.run(embedded(theirs, spec, previous), previous == PAD, between=between)
    return features @ weights["encoder.stack.embed_tokens.weight"].t()
