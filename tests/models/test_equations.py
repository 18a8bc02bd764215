"""The attention logits of every system, against an evaluation in float64 with its own loops; see `tupe.systems`."""

import math
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F

from tupe.systems import SYSTEMS

LAYERS, HEADS, WIDTH = 2, 3, 24
D_H = WIDTH // HEADS
FAR = 4  # the distance from which on `clipped`, `parametric` and `shaw` clip

CASES = {
    **{system: (system, {}) for system in SYSTEMS},
    "bert_r with reset": ("bert_r", {"reset": "paper"}),
    "diet_rel with reset": ("diet_rel", {"reset": "paper"}),
    "diet_rel with reset, shared by layers": ("diet_rel", {"reset": "paper", "sharing": "layer"}),
    "diet_rel shared by heads": ("diet_rel", {"sharing": "head"}),
    "untied positions without a layer norm": ("tupe_a", {"no_untied_layer_norm": True}),
    "bert_a at TUPE's scale": ("bert_a", {"content_terms": 2}),
    "diet_abs of each layer": ("diet_abs", {"sharing": "none"}),
    "diet_abs shared by heads, with reset": ("diet_abs", {"sharing": "head", "reset": "paper"}),
    "diet_abs with an input table": ("diet_abs", {"absolute": "low_rank_input"}),
    "tupe_r of each layer": ("tupe_r", {"sharing": "none"}),
    "tupe_r shared by heads": ("tupe_r", {"sharing": "head"}),
    "tupe_r with segments": ("tupe_r", {"segment": "per_head"}),
    "bert_ad of each layer": ("bert_ad", {"sharing": "none"}),
    "bert_ad shared by heads": ("bert_ad", {"sharing": "head"}),
    "free": ("tupe_a", {"absolute": "free"}),
    "free of each layer": ("tupe_a_tie_cls", {"absolute": "free", "sharing": "none"}),
    "parametric": ("tupe_r", {"relative": "parametric"}),
    "parametric of each layer": ("t5", {"relative": "parametric", "sharing": "none"}),
    "clipped": ("tupe_r", {"relative": "clipped"}),
    "deberta, its own projections and the paper's rows": (
        "deberta",
        {"deberta_projections": "own", "deberta_index": "paper", "relative_buckets": 6, "relative_max_distance": 9},
    ),
    "deberta's p2c alone, beside segments": ("deberta", {"deberta_terms": "p2c", "segment": "per_head"}),
    "deberta beside tupe_a": ("tupe_a", {"relative": "deberta", "relative_buckets": 0, "relative_max_distance": FAR}),
    "shaw with low rank and segments": ("shaw", {"absolute": "low_rank", "segment": "per_head"}),
    "alibi offset": ("alibi", {"relative_sides": "offset"}),
    "alibi symmetric of each layer, beside untied positions": (
        "tupe_a",
        {"relative": "alibi", "sharing": "none", "relative_sides": "symmetric"},
    ),
    "alibi learned of each layer": ("alibi_learned", {"sharing": "none"}),
    "kerple of each layer": ("kerple", {"sharing": "none"}),
    "kerple shared by heads, with reset": ("kerple", {"sharing": "head", "reset": "paper"}),
    "fire of each layer": ("fire", {"sharing": "none"}),
    "fire shared by heads, beyond its length": ("fire", {"sharing": "head", "fire_length": 5.0, "fire_width": 7}),
    "rope of half the columns": ("rope", {"rotary_dims": 4, "rotary_base": 50.0}),
    "rope, linear": ("rope", {"rotary_scaling": "linear", "rotary_factor": 4.0}),
    "rope and T5": ("rope", {"relative": "bucketed", "reset": "paper"}),
    "rope under symmetric slopes and a reset": (
        "rope",
        {"relative": "alibi", "relative_sides": "symmetric", "reset": "paper"},
    ),
    "rope_reset of half the columns": ("rope_reset", {"rotary_dims": 4, "rotary_base": 5.0}),
    "rope_reset without theta": ("rope_reset", {"reset": "none"}),
    "rope_reset of each layer": ("rope_reset", {"sharing": "none"}),
    "rope_reset shared by heads, and T5": ("rope_reset", {"relative": "bucketed", "sharing": "head"}),
    "bert_ad with rope": ("bert_ad", {"rotary_dims": -1}),
    "only segments": ("t5", {"relative": "none", "segment": "per_head"}),
    "diet_abs_lin of each layer": ("diet_abs_lin", {"sharing": "none"}),
    "diet_abs_lin shared by heads": ("diet_abs_lin", {"sharing": "head"}),
}


@pytest.fixture(params=CASES)
def case(request, build):
    """The model in float64, and its fields."""
    system, changed = CASES[request.param]
    fields = {**SYSTEMS[system], **changed}
    if fields["relative"] in ("clipped", "parametric", "shaw"):
        changed = {**changed, "relative_max_distance": FAR}
    if system == "deberta" and "relative_buckets" not in changed:
        changed = {**changed, "relative_buckets": 0, "relative_max_distance": FAR}
        fields = {**fields, **changed}
    if fields["linformer_k"]:
        changed = {**changed, "linformer_k": 5}
    model = build(f"{system}_tiny", **changed).double()
    for parameter in model.encoder.sentence_encoder.position_bias.parameters():
        if parameter.ndim == 1:  # the layer norm of the table
            torch.nn.init.normal_(parameter)
    return model, fields


def seen_logits(model, tokens):
    """What each layer hands to softmax, `(L, B, H, n, m)`, and the input of each, `(L, B, n, d)`."""
    seen = []

    def record(query, key, value, bias=None, *, scale, **_):
        logits = scale * query @ key.transpose(-2, -1)
        seen.append(logits if bias is None else logits + bias)
        return query.new_zeros(*query.shape[:3], value.shape[-1]) if value.shape != query.shape else value

    with patch("tupe.models.layer.biased_attention", record), torch.no_grad():
        _, extra = model(tokens, features_only=True, return_all_hiddens=True)
    return torch.stack(seen), torch.stack(extra["inner_states"][:-1]).transpose(1, 2)


def segments_of(row, eos=2):
    """Segment of each token, read one by one."""
    segment, found = 0, []
    for before, token in zip([None, *row], row):
        segment = 1 if before == token == eos else segment
        found.append(segment)
    return found


class Expected:
    """The specification's equation, number by number."""

    def __init__(self, model, fields):
        self.encoder, self.fields = model.encoder.sentence_encoder, fields
        self.terms = self.encoder.position_bias

    def input(self, tokens):
        x = self.encoder.embed_tokens.weight[tokens]
        if self.fields["absolute"] in ("input", "low_rank_input"):
            x = x + self.encoder.input_positions.weight[: tokens.shape[1]]
        if self.fields["segment"] == "input":
            segments = torch.tensor([segments_of(row) for row in tokens.tolist()])
            x = x + self.encoder.input_segments.weight[segments]
        norm = self.encoder.layernorm_embedding
        x = F.layer_norm(x, (WIDTH,), norm.weight, norm.bias)
        return x * tokens.ne(1).unsqueeze(-1)

    def content(self, x, layer, head, padding):
        """Queries and keys of one sequence: `(n, d_h)` and `(m, d_h)`."""
        attention = self.encoder.layers[layer].self_attn
        rows = slice(head * D_H, (head + 1) * D_H)
        w_q, w_k, _ = attention.qkv_proj.weight.split(WIDTH)
        b_q, b_k, _ = attention.qkv_proj.bias.split(WIDTH)
        source = x
        if self.fields["linformer_k"]:
            projection = attention.projection.weight
            source = sum(projection[:, [t]] * x[t] for t in range(len(x)) if not padding[t])
        return x @ w_q[rows].t() + b_q[rows], source @ w_k[rows].t() + b_k[rows]

    def set_of(self, layer, head):
        """Number of the set of position parameters that this head of this layer uses."""
        return {"none": layer * HEADS + head, "layer": head, "head": layer}[self.fields["sharing"]]

    def untied(self, vectors, s):
        absolute = self.terms.absolute
        p = vectors
        if not self.fields.get("no_untied_layer_norm"):
            p = F.layer_norm(vectors, (WIDTH,), absolute.layer_norm.weight, absolute.layer_norm.bias)
        rows = slice(s * D_H, (s + 1) * D_H)
        return p @ absolute.query.weight[rows].t(), p @ absolute.key.weight[rows].t()

    def absolute(self, n, m, s):
        kind, term = self.fields["absolute"], self.terms.absolute
        if kind == "untied":
            query, key = self.untied(term.table.weight[:n], s)
            return query @ key.t() / (self.products() * D_H) ** 0.5
        if kind in ("low_rank", "low_rank_input"):
            pairs = [term.query[s, i] @ term.key[s, j] for i in range(n) for j in range(m)]
            return torch.stack(pairs).view(n, m)
        if kind == "free":
            return term.weight[s, :n, :n]
        return torch.zeros(n, m, dtype=torch.float64)

    def relative(self, n, s):
        kind, term = self.fields["relative"], self.terms.relative
        out = torch.zeros(n, n, dtype=torch.float64)
        for i in range(n):
            for j in range(n):
                clipped = max(-FAR, min(FAR, j - i)) + FAR
                if kind == "bucketed":
                    bucket = min(abs(j - i), 8 if abs(j - i) < 12 else 9) + 16 * (j > i)  # n < 16
                    out[i, j] = term.weight[bucket, s]
                elif kind == "clipped":
                    out[i, j] = term.weight[clipped, s]
                elif kind == "unbinned":
                    out[i, j] = term.weight[23 + j - i, s]  # 24 positions
                elif kind == "alibi":
                    out[i, j] = -self.slope(s, j > i) * (abs(j - i) - 0.5 * (self.sides == "offset" and j > i))
                elif kind == "kerple":
                    p, a = (0.01 + math.log1p(math.exp(x[int(j > i), s])) for x in (term.height, term.rate))
                    out[i, j] = -p * math.log(a * abs(j - i) + 1)
                elif kind == "fire":
                    c, end = abs(term.rate.item()), 64 * abs(term.length.item())
                    u = math.log(c * abs(j - i) + 1) / (math.log(c * end + 1) + 1e-6)
                    u = math.copysign(min(u, 1.0), j - i) if j != i else 0.0
                    for k in range(len(term.hidden_bias)):
                        h = max(0.0, float(term.hidden_weight[k] * u + term.hidden_bias[k]))
                        out[i, j] += term.out_weight[s, k] * h
                    out[i, j] += term.out_bias[s]
                elif kind == "parametric":
                    rows, r = slice(s * D_H, (s + 1) * D_H), term.weight[clipped]
                    out[i, j] = (term.query.weight[rows] @ r) @ (term.key.weight[rows] @ r)
        return out

    @property
    def sides(self):
        return self.fields.get("relative_sides")

    def slope(self, s, after):
        """Of ALiBi; three heads have those of two, and the first of four."""
        if self.sides == "learned":
            return math.log1p(math.exp(self.terms.relative.slope[int(after), s]))
        return (2**-4, 2**-8, 2**-2)[s % HEADS]

    def reset(self, v, s):
        if self.fields["reset"] == "none":
            return v
        reset, v = self.terms.reset, v.clone()
        if self.fields["absolute"] == "untied":
            query, key = self.untied(reset.vectors, s)
            theta = (query * key).sum(-1) / (self.products() * D_H) ** 0.5
        else:
            theta = reset.scalars[:, s]
        v[:, 0] = theta[1]
        terms = self.fields["absolute"], self.fields["relative"]
        v[0, :] = 0 if terms == ("none", "none") else theta[0]  # with a rotation alone it is left out: no weight has it
        return v

    def segment(self, row, s):
        segments = segments_of(row)
        values = self.encoder.segment_attention.weight.flatten(0, 1)[s]
        return torch.stack([torch.stack([values[a, b] for b in segments]) for a in segments])

    def turned(self, x):
        """Each plane of the columns `c` and `c + r/2` by `i theta_c`, as complex numbers."""
        r = self.fields.get("rotary_dims", 0)
        r = D_H if r == -1 else r
        base, factor = self.fields.get("rotary_base", 10_000.0), self.fields.get("rotary_factor", 1.0)
        out = x.clone()
        for i in range(len(x)):
            for c in range(r // 2):
                angle = i * base ** (-2 * c / r) / factor
                point = complex(x[i, c], x[i, c + r // 2]) * complex(math.cos(angle), math.sin(angle))
                out[i, c], out[i, c + r // 2] = point.real, point.imag
        return out

    def products(self):
        terms = self.fields.get("deberta_terms", "c2p+p2c").split("+") if self.fields["relative"] == "deberta" else ()
        return len(terms) + (2 if self.fields["absolute"] == "untied" else 1)

    def disentangled(self, query, key, layer, head):
        """DeBERTa's terms before their scale, with the row of each distance from its own table of buckets."""
        rows, attention = slice(head * D_H, (head + 1) * D_H), self.encoder.layers[layer].self_attn
        embeddings, relative = self.terms.embeddings, attention.relative
        p, own = embeddings.table.weight, self.fields.get("deberta_projections") == "own"
        if not own:
            p = F.layer_norm(p, (WIDTH,), embeddings.layer_norm.weight, embeddings.layer_norm.bias)
        w_q, w_k, _ = attention.qkv_proj.weight.split(WIDTH)
        b_q, b_k, _ = attention.qkv_proj.bias.split(WIDTH)
        if own:
            w_q, b_q, w_k, b_k = relative.query.weight, relative.query.bias, relative.key.weight, 0 * b_k
        of_query, of_key = p @ w_q[rows].t() + b_q[rows], p @ w_k[rows].t() + b_k[rows]
        buckets = self.fields["relative_buckets"]

        def row(away):
            # with 6 buckets and distance 9: those up to 3, 4, up to 8, and then 6
            bucket = [0, 1, 2, 3, 4, 5, 5, 5, 5, 6][min(abs(away), 9)] if buckets else abs(away)
            return max(0, min(len(p) - 1, int(math.copysign(bucket, away)) + len(p) // 2))

        out, terms = torch.zeros(len(query), len(key), dtype=torch.float64), self.fields.get("deberta_terms", "c2p p2c")
        for i in range(len(query)):
            for j in range(len(key)):
                other = row(j - i if self.fields.get("deberta_index") == "paper" else i - j)
                out[i, j] += query[i] @ of_key[row(i - j)] * ("c2p" in terms)
                out[i, j] += key[j] @ of_query[other] * ("p2c" in terms)
        return out

    def logits(self, x, row, layer, head):
        query, key = self.content(x, layer, head, [token == 1 for token in row])
        unturned = query @ key.t()
        if self.fields.get("rotary_dims"):
            query, key = self.turned(query), self.turned(key)
        n, m, s = len(query), len(key), self.set_of(layer, head)
        if self.fields["absolute"] == "untied_cross":
            p_q, p_k = self.untied(self.terms.absolute.table.weight[:n], s)
            return (query @ key.t() + query @ p_k.t() + p_q @ key.t() + p_q @ p_k.t()) / (4 * D_H) ** 0.5
        out = query @ key.t()
        if self.fields.get("rotary_reset"):
            out[0, :], out[:, 0] = unturned[0, :], unturned[:, 0]
        if self.fields["relative"] == "shaw":
            a = self.encoder.layers[layer].self_attn.relative.key
            for i in range(n):
                for j in range(n):
                    out[i, j] += query[i] @ a[max(-FAR, min(FAR, j - i)) + FAR]
        if self.fields["relative"] == "deberta":
            out = out + self.disentangled(query, key, layer, head)
        products = self.fields.get("content_terms", self.products())
        out = out / (products * D_H) ** 0.5
        free = self.absolute(n, m, s)
        if not self.fields["linformer_k"]:
            free = self.reset(free + self.relative(n, s), s)
        out = out + free
        return out + self.segment(row, s) if self.fields["segment"] == "per_head" else out


@torch.no_grad()
def test_logits_are_the_equation(case, pairs):
    model, fields = case
    expected = Expected(model, fields)
    logits, inputs = seen_logits(model, pairs)
    torch.testing.assert_close(inputs[0], expected.input(pairs))
    for layer in range(LAYERS):
        for b, row in enumerate(pairs.tolist()):
            for head in range(HEADS):
                want = expected.logits(inputs[layer, b], row, layer, head)
                torch.testing.assert_close(logits[layer, b, head], want)
