"""A model whose bias is handed out structured, as on a GPU for long sequences, is the same model."""

import pytest
import torch

from tupe.models import encoder
from tupe.position import StructuredBias

SYSTEMS = [
    ("tupe_r_tiny", {}),
    ("tupe_r_tiny", {"reset": "release", "sharing": "none"}),
    ("tupe_a_tiny", {"segment": "per_head", "sharing": "head"}),
    ("bert_a_tiny", {"segment": "per_head"}),
    ("bert_ad_tiny", {"relative": "bucketed"}),
    ("diet_abs_tiny", {"sharing": "none"}),
    ("diet_rel_tiny", {"reset": "paper"}),
    ("tupe_r_tiny", {"absolute": "free", "segment": "per_head"}),
    ("shaw_tiny", {"absolute": "untied", "segment": "per_head"}),
    ("deberta_tiny", {"absolute": "untied", "reset": "paper", "sharing": "none"}),
    ("alibi_tiny", {"segment": "per_head"}),
    ("tupe_a_rope_tiny", {}),
    ("bialibi_tiny", {"sharing": "none"}),
    ("tupe_a_kerple_tiny", {}),
    ("fire_tiny", {"reset": "paper", "sharing": "head"}),
]


@pytest.mark.parametrize(("name", "fields"), SYSTEMS)
def test_is_the_same_model(build, pairs, name, fields, monkeypatch):
    model = build(name, **fields)
    whole, _ = model(pairs)
    whole.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    monkeypatch.setattr(encoder, "prefers_structured", lambda *_: True)
    bias = next(model.encoder.sentence_encoder.layer_terms(pairs, torch.float32))[0].bias
    assert isinstance(bias, StructuredBias) == (
        fields.get("absolute") != "free" and not name.startswith(("shaw", "deberta"))
    )
    structured, _ = model(pairs)
    torch.testing.assert_close(structured, whole)
    structured.square().sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-3, atol=1e-4, msg=name)
    with torch.no_grad():
        torch.testing.assert_close(model(pairs)[0], whole)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("tupe_a_tiny", {}),
        ("tupe_a_tie_cls_tiny", {"sharing": "none", "segment": "per_head"}),
        ("tupe_a_tiny", {"reset": "release", "sharing": "head"}),
        ("diet_abs_tiny", {"position_rank": 5, "unpad": "always"}),
        ("tupe_a_rope_tiny", {}),
        ("tupe_r_tiny", {}),
    ],
)
def test_factors_as_wider_heads(build, pairs, name, fields):
    """The same model; TUPE-R's bias by distance has none, and is computed as ever."""
    backends = ("factors", "sdpa")
    models = [build(name, attention_backend=backend, dropout=0.0, **fields).double().train() for backend in backends]
    (terms,) = next(models[0].encoder.sentence_encoder.layer_terms(pairs, torch.float64))
    assert isinstance(terms.bias, StructuredBias) == (not name.startswith("tupe_r"))
    found = []
    for model in models:
        torch.manual_seed(1)
        model.encoder.sentence_encoder.layers.apply(lambda part: setattr(part, "training", False))
        out = model(pairs)[0][pairs.ne(1)]
        out.square().sum().backward()
        found.append([out, *(parameter.grad for parameter in model.parameters())])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
