"""The papers' equations in float64, written apart from the package: parameters by the state dict's names, and no more.

An encoder's `spec` says what its paper says; `defaults` fills what a paper leaves out. Distances are `j - i`, key minus
query. Parameters of positions come in sets: one a head, one a layer, or one a head of each layer (`sharing`).
"""

import math

import torch
import torch.nn.functional as F

PAD, EOS = 1, 2
HEADS = 3
SLOPES = (2**-4, 2**-8, 2**-2)  # ALiBi's for three heads: both of two heads, and the first of four
STARTS = (*range(9), 12, 16, 23, 32, 46, 64, 91)  # the first distance of each of T5's buckets, on one side
CAUSAL_STARTS = (*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)  # of its decoder

#: What the papers say of each system, apart from `tupe.systems`.
SYSTEMS = {
    "tupe": {"absolute": "untied", "relative": "bucketed", "reset": True},
    "tupe_r": {"absolute": "untied", "relative": "bucketed", "reset": True},
    "tupe_a": {"absolute": "untied", "reset": True},
    "tupe_a_tie_cls": {"absolute": "untied"},
    "bert_a": {"absolute": "input"},
    "bert_r": {"absolute": "input", "relative": "bucketed"},
    "bert_ad": {"absolute": "untied_cross"},
    "t5": {"relative": "bucketed", "segment": "input"},
    "shaw": {"relative": "shaw", "segment": "input", "sharing": "none"},
    "deberta": {"relative": "deberta", "segment": "input"},
    "diet_rel": {"relative": "unbinned", "segment": "per_head", "sharing": "none"},
    "diet_abs": {"absolute": "low_rank", "segment": "per_head"},
    "linformer": {"absolute": "input", "segment": "input", "linformer": True},
    "diet_abs_lin": {"absolute": "low_rank", "segment": "input", "linformer": True},
    "alibi": {"relative": "alibi", "segment": "input"},
    "alibi_learned": {"relative": "alibi", "segment": "input"},
    "bialibi": {"relative": "alibi", "reset": True, "segment": "input"},
    "kerple": {"relative": "kerple", "segment": "input"},
    "fire": {"relative": "fire", "segment": "input"},
    "tupe_a_kerple": {"absolute": "untied", "relative": "kerple", "reset": True},
    "rope": {"segment": "input", "rotary": 8},
    "tupe_a_rope": {"absolute": "untied", "reset": True, "rotary": 8},
}
TRANSLATORS = {
    "sinusoidal": {"absolute": "sinusoidal"},
    "learned": {"absolute": "input"},
    "none": {},
    "shaw": {"relative": "shaw", "sharing": "none"},
    "t5": {"relative": "bucketed"},
    "diet_rel": {"relative": "unbinned", "sharing": "none"},
    "diet_abs": {"absolute": "low_rank"},
    "tupe_a": {"absolute": "untied"},
    "tupe_r": {"absolute": "untied", "relative": "bucketed"},
    "rope": {"rotary": 8},
}
DEFAULTS = {
    "absolute": "none", "relative": "none", "reset": False, "segment": "none", "sharing": "layer", "linformer": False,
    "rotary": 0, "rotary_base": 10_000.0, "far": 128, "content_terms": 0, "window": 0, "pre_norm": False, "eps": 1e-5,
    "activation": "gelu", "separators": 2, "causal": False, "cross": "none", "buckets": None, "untied_output": False,
}  # fmt: skip


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
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred / (variance + eps).sqrt() * self[f"{name}.weight"] + self[f"{name}.bias"]


def activation(name, x):
    return {"gelu": lambda: x * (1 + torch.erf(x / math.sqrt(2))) / 2, "relu": lambda: x.clamp(min=0)}[name]()


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
        self.heads = self.spec.get("heads", HEADS)
        self.d_h = self.width // self.heads
        self.layers = sum(f"layers.{layer}.fc1.weight" in self.w for layer in range(9))

    def products(self):
        own = {"untied": 2, "untied_cross": 4}.get(self.spec["absolute"], 1)
        return own + 2 * (self.spec["relative"] == "deberta")

    def sets(self, layer):
        """The number of the set of position parameters of each head of this layer."""
        sharing, heads = self.spec["sharing"], range(self.heads)
        return [layer if sharing == "head" else h + layer * self.heads * (sharing == "none") for h in heads]

    # Terms that no word changes

    def projected(self, side, vectors, table="absolute", norm="layer_norm"):
        """Untied vectors in sets, `(S, n, d_h)`."""
        normed = self.w.norm(f"position_bias.{table}.{norm}", vectors, self.spec["eps"])
        return in_heads(self.w.linear(f"position_bias.{table}.{side}", normed), self.d_h)

    def absolute(self, n):
        kind, name = self.spec["absolute"], "position_bias.absolute"
        if kind == "untied":
            p = self.w[f"{name}.table.weight"][:n]
            return self.projected("query", p) @ self.projected("key", p).mT / math.sqrt(self.products() * self.d_h)
        if kind in ("low_rank", "low_rank_input"):
            key = self.w[f"{name}.key"]
            return self.w[f"{name}.query"][:, :n] @ (key if self.spec["linformer"] else key[:, :n]).mT
        return self.w[f"{name}.weight"][:, :n, :n] if kind == "free" else None

    def by_distance(self, d):
        """The relative term of each distance of `d` `(D,)`: `(D, S)`."""
        kind, causal, far = self.spec["relative"], self.spec["causal"], self.spec["far"]
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
        side, d = (d > 0).long() * (not causal), d.double()
        if kind == "alibi" and "slope" not in w:
            return -d.abs()[:, None] * torch.tensor(SLOPES * self.layers, dtype=torch.float64)
        if kind == "alibi":
            return -d.abs()[:, None] * F.softplus(w["slope"])[side]
        if kind == "kerple":
            height, rate = (0.01 + F.softplus(w[name])[side] for name in ("height", "rate"))
            return -height * torch.log1p(rate * d.abs()[:, None])
        assert kind == "fire"
        rate, end = w["rate"].abs(), 64 * w["length"].abs()
        share = torch.log1p(rate * d.abs()) / (torch.log1p(rate * end) + 1e-6)
        share = d.sign() * share.clamp(max=1)
        return (share[:, None] * w["hidden_weight"] + w["hidden_bias"]).clamp(min=0) @ w["out_weight"].t() + w[
            "out_bias"
        ]

    def free_of_words(self, n):
        """All terms that no word changes, `(S, n, n)`, or `None`."""
        bias = self.absolute(n)
        if self.spec["relative"] not in ("none", "shaw", "deberta"):
            relative = self.by_distance(torch.arange(1 - n, n))[distances(n, n) + n - 1].permute(2, 0, 1)
            bias = relative if bias is None else bias + relative
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
        bias = bias.clone()
        bias[:, :, 0] = theta[1][:, None]
        bias[:, 0, :] = theta[0][:, None]
        return bias

    def segments(self, tokens):
        """Of each token, read one by one."""
        found = []
        for row in tokens.tolist():
            segment, segments = 0, []
            for before, token in zip([None, *row], row):
                two = before == token == EOS
                segment = 1 if (two if self.spec["separators"] == 2 else before == EOS) else segment
                segments.append(segment * (self.spec["separators"] == 2 or token != PAD))
            found.append(segments)
        return torch.tensor(found)

    # Attention

    def turn(self, x):
        """The plane of the columns `c` and `c + r/2` by the angle `i base^(-2c/r)`."""
        r = self.spec["rotary"]
        power = -2 * torch.arange(r // 2, dtype=torch.float64) / r
        angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * self.spec["rotary_base"] ** power
        a, b = x[..., : r // 2], x[..., r // 2 : r]
        turned = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(), x[..., r:])
        return torch.cat(turned, -1)

    def vectors_of_distance(self, name, n, m):
        far = self.spec["far"]
        return self.w[name][distances(n, m).clamp(-far, 0 if self.spec["causal"] else far) + far]

    def disentangled(self, query, key, name):
        """DeBERTa's two terms: each word asks the row of `i - j`, and each of these rows asks a word."""
        p, eps = self.w["position_bias.embeddings.table.weight"], self.spec["eps"]
        p = self.w.norm("position_bias.embeddings.layer_norm", p, eps)
        of_query, of_key, _ = (in_heads(part, self.d_h) for part in self.w.linear(f"{name}.qkv_proj", p).chunk(3, -1))
        buckets, n = self.spec["buckets"], query.shape[-2]
        away = -distances(n, n)
        if buckets:
            away = away.sign() * torch.tensor(buckets)[away.abs().clamp(max=len(buckets) - 1)]
        row = (away + len(p) // 2).clamp(0, len(p) - 1)
        asked = torch.einsum("bhid,hijd->bhij", query, of_key[:, row])
        return asked + torch.einsum("bhjd,hijd->bhij", key, of_query[:, row])

    def attention(self, name, x, y, layer, bias, hidden, products):
        """From `x` `(B, n, d)` to `y` `(B, m, d)`, with `bias` `(B or 1, H, n, m)` and `hidden` likewise."""
        w, itself = self.w, x is y
        query, key, value = (x @ a.t() + b for x, a, b in zip(
            (x, y, y), w[f"{name}.qkv_proj.weight"].chunk(3), w[f"{name}.qkv_proj.bias"].chunk(3)))  # fmt: skip
        query, key, value = (in_heads(part, self.d_h) for part in (query, key, value))
        if itself and self.spec["rotary"]:
            query, key = self.turn(query), self.turn(key)
        if itself and self.spec["absolute"] == "untied_cross":
            p, sets = self.w["position_bias.absolute.table.weight"][: x.shape[1]], self.sets(layer)
            query, key = query + self.projected("query", p)[sets], key + self.projected("key", p)[sets]
        n, m, shaw = query.shape[-2], key.shape[-2], itself and self.spec["relative"] == "shaw"
        logits = query @ key.mT
        if shaw:
            vectors = self.vectors_of_distance(f"{name}.relative.key", n, m)
            logits = logits + torch.einsum("bhid,ijd->bhij", query, vectors)
        if itself and self.spec["relative"] == "deberta":
            logits = logits + self.disentangled(query, key, name)
        logits = logits / math.sqrt((self.spec["content_terms"] or products) * self.d_h)
        logits = (logits if bias is None else logits + bias).masked_fill(hidden, -math.inf)
        weights = logits.softmax(-1)
        out = weights @ value
        if shaw and f"{name}.relative.value" in w:
            vectors = self.vectors_of_distance(f"{name}.relative.value", n, m)
            out = out + torch.einsum("bhij,ijd->bhid", weights, vectors)
        return w.linear(f"{name}.out_proj", out.transpose(1, 2).flatten(2))

    def residual(self, part, x, norm):
        if self.spec["pre_norm"]:
            return x + part(self.w.norm(norm, x, self.spec["eps"]))
        return self.w.norm(norm, x + part(x), self.spec["eps"])

    def feed_forward(self, name, x):
        def part(x):
            return self.w.linear(f"{name}.fc2", activation(self.spec["activation"], self.w.linear(f"{name}.fc1", x)))

        return self.residual(part, x, f"{name}.final_layer_norm")

    def run(self, x, padding, tokens=None, between=None):
        """The layers, and the norm after them; `between` is the attention to a source."""
        n, free, hidden = x.shape[1], self.free_of_words(x.shape[1]), padding[:, None, None, :]
        away = distances(n, n)
        if self.spec["causal"]:
            hidden = hidden | (away > 0)
        if self.spec["window"]:
            words = torch.arange(n) > 0
            hidden = hidden | ((away.abs() > self.spec["window"]) & words & words[:, None])
        for layer in range(self.layers):
            name = f"layers.{layer}"
            bias = None if free is None else free[self.sets(layer)]
            if self.spec["segment"] == "per_head":
                values, s = self.w["segment_attention.weight"].flatten(0, 1)[self.sets(layer)], self.segments(tokens)
                of_segments = values[:, s[:, :, None], s[:, None, :]].transpose(0, 1)
                bias = of_segments if bias is None else bias + of_segments

            def attend(x, name=f"{name}.self_attn", layer=layer, bias=bias):
                if not self.spec["linformer"]:
                    return self.attention(name, x, x, layer, bias, hidden, self.products())
                mixed = self.w[f"{name}.projection.weight"][:, :n] @ x.masked_fill(padding[:, :, None], 0)
                return self.attention(name, x, mixed, layer, bias, torch.tensor(False), 1)

            x = self.residual(attend, x, f"{name}.self_attn_layer_norm")
            x = x if between is None else between(self, layer, x)
            x = self.feed_forward(name, x)
        return self.w.norm("layer_norm", x, self.spec["eps"])


def encoder(names, spec, tokens):
    """The features `(B, n, d)` of an encoder."""
    stack, n = Stack(names, spec), tokens.shape[1]
    x = names["embed_tokens.weight"][tokens]
    if stack.spec["absolute"] in ("input", "low_rank_input"):
        x = x + names["input_positions.weight"][:n]
    if stack.spec["segment"] == "input":
        x = x + names["input_segments.weight"][stack.segments(tokens)]
    x = names.norm("layernorm_embedding", x, stack.spec["eps"])
    if "embedding_projection.weight" in names:
        x = names.linear("embedding_projection", x)
    return stack.run(x, tokens == PAD, tokens)


def words(head, table, spec, features):
    """The logits `(..., V)` of a language-model head, whose output embeddings are `table`."""
    spec = {**DEFAULTS, **spec}
    x = activation(spec["activation"], head.linear("dense", features))
    return head.norm("layer_norm", x, spec["eps"]) @ table.t() + head["bias"]


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
    spec = {"activation": "relu", **spec}
    padding = source == PAD
    memory = Stack(ours, spec).run(embedded(ours, spec, source), padding)
    n, m, kind = previous.shape[1], source.shape[1], spec.get("cross", "none")

    def between(stack, layer, x):
        bias, sets, name = None, stack.sets(layer), f"layers.{layer}.encoder_attn"
        if kind == "low_rank":
            bias = (cross["absolute.query"][:, :n] @ cross["absolute.key"][:, :m].mT)[sets]
        if kind == "untied":
            sides = (("query", "table", "layer_norm", n), ("key", "key_table", "key_layer_norm", m))
            query, key = (in_heads(cross.linear(f"absolute.{side}", cross.norm(
                f"absolute.{norm}", cross[f"absolute.{table}.weight"][:length], 1e-5)), stack.d_h)
                for side, table, norm, length in sides)  # fmt: skip
            bias = (query @ key.mT)[sets] / math.sqrt(2 * stack.d_h)
        if kind == "diagonal":
            rows = [[bucket(d, False) for d in row] for row in distances(n, m).tolist()]
            bias = cross["relative.weight"][torch.tensor(rows)].permute(2, 0, 1)[sets]
        products = 2 if kind == "untied" else 1
        return stack.residual(
            lambda x: stack.attention(name, x, memory, layer, bias, padding[:, None, None, :], products),
            x, f"layers.{layer}.encoder_attn_layer_norm",
        )  # fmt: skip

    decoder = Stack(theirs, {**spec, "causal": True})
    features = decoder.run(embedded(theirs, spec, previous), previous == PAD, between=between)
    return features @ weights["encoder.stack.embed_tokens.weight"].t()
