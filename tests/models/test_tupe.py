"""The encoder of every system: its equation, its properties, its conveniences."""

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tupe.errors import UserError
from tupe.models.config import MODEL_NAMES
from tupe.models.summary import count_parameters
from tupe.systems import ALIASES, SIZES, SYSTEMS

ALL = [f"{system}_tiny" for system in SYSTEMS]


def logits_of_layer(model, tokens):
    """The attention logits of the first layer, as that layer hands them to softmax."""
    seen = {}

    def record(query, key, value, bias=None, *, scale, **_):
        seen["logits"] = scale * query @ key.transpose(-2, -1) + (0 if bias is None else bias)
        return value

    with patch("tupe.models.layer.biased_attention", record), torch.no_grad():
        model(tokens, features_only=True)
    return seen["logits"]


@pytest.mark.parametrize("name", ALL)
def test_logits_are_the_equation_of_the_system(build, tokens, name):
    """An evaluation in float64 with its own loops over heads; see `tupe.systems` and the papers' equations."""
    model = build(name, encoder_layers=1).double()
    fields = SYSTEMS[name.rsplit("_", 1)[0]]
    encoder = model.encoder.sentence_encoder
    tokens = tokens[:1]
    n, width, heads = tokens.shape[1], 24, 3
    d_h = width // heads

    x = encoder.embed_tokens(tokens)[0]
    if fields["absolute"] == "input":
        x = x + encoder.input_positions.weight[:n]
    x = F.layer_norm(x, (width,), encoder.layernorm_embedding.weight, encoder.layernorm_embedding.bias)
    attention = encoder.layers[0].self_attn
    w_q, w_k, _ = attention.qkv_proj.weight.split(width)
    b_q, b_k, _ = attention.qkv_proj.bias.split(width)
    content_q, content_k = x @ w_q.t() + b_q, x @ w_k.t() + b_k
    term = encoder.position_bias
    if term.absolute is not None:

        def project(p):
            p = F.layer_norm(p, (width,), term.absolute.layer_norm.weight, term.absolute.layer_norm.bias)
            return p @ term.absolute.query.weight.t(), p @ term.absolute.key.weight.t()

        position_q, position_k = project(term.absolute.table.weight[:n])
        if term.reset is not None:
            theta_q, theta_k = project(term.reset.vectors)

    expected = torch.zeros(heads, n, n, dtype=torch.float64)
    for h in range(heads):
        s = slice(h * d_h, (h + 1) * d_h)
        content = content_q[:, s] @ content_k[:, s].t()
        if fields["absolute"] == "untied_cross":
            q, k = position_q[:, s], position_k[:, s]
            cross = content_q[:, s] @ k.t() + q @ content_k[:, s].t()
            expected[h] = (content + cross + q @ k.t()) / (4 * d_h) ** 0.5
            continue
        free = torch.zeros(n, n, dtype=torch.float64)
        if fields["absolute"] == "untied":
            free = free + position_q[:, s] @ position_k[:, s].t() / (2 * d_h) ** 0.5
        if fields["relative"] == "bucketed":
            for i in range(n):
                for j in range(n):
                    bucket = min(abs(j - i), 8 if abs(j - i) < 12 else 9) + 16 * (j > i)  # n < 16
                    free[i, j] += term.relative.weight[bucket, h]
        if fields["reset"] == "paper":
            theta = (theta_q[:, s] * theta_k[:, s]).sum(-1) / (2 * d_h) ** 0.5
            free[:, 0] = theta[1]
            free[0, :] = theta[0]
        expected[h] = content / ((2 if fields["absolute"] == "untied" else 1) * d_h) ** 0.5 + free
    torch.testing.assert_close(logits_of_layer(model, tokens)[0], expected)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_parameter_counts(name):
    """methods.md's counts: the input table is n d, TUPE's projections 2 d^2, T5's table 32 H, theta 2 d."""
    system, size = name.rsplit("_", 1)
    fields = SYSTEMS[ALIASES.get(system, system)]
    width, heads, layers = (SIZES[size][f"encoder_{f}"] for f in ("embed_dim", "attention_heads", "layers"))
    expected = {"input": 512 * width, "untied": 512 * width + 2 * width**2 + 2 * width}
    expected["untied_cross"] = expected["untied"]
    expected = expected[fields["absolute"]]
    expected += 32 * heads if fields["relative"] == "bucketed" else 0
    expected += 2 * width if fields["reset"] != "none" else 0
    position, total = count_parameters(name, 32_768, 512)
    assert position == expected
    layer = 4 * width**2 + 4 * width + 8 * width**2 + 5 * width + 4 * width
    head = width**2 + width + 2 * width + 32_768
    assert total == position + 32_768 * width + 2 * width + layers * layer + head
    if name == "bert_a_base":
        assert position == 393_216


def test_names():
    assert len(MODEL_NAMES) == 28
    assert {"tupe_base", "tupe_r_base", "bert_ad_large", "tupe_a_tie_cls_small"} <= set(MODEL_NAMES)


@pytest.mark.parametrize("name", ALL)
def test_padding_on_the_right_changes_nothing(build, tokens, name):
    model = build(name)
    with torch.no_grad():
        padded, _ = model(tokens)
        for row, length in enumerate((13, 8, 2)):
            alone, _ = model(tokens[row : row + 1, :length])
            torch.testing.assert_close(padded[row, :length], alone[0], rtol=1e-4, atol=1e-5)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(13)))
def test_without_positions_the_encoder_is_permutation_equivariant(build, tokens, order):
    model = build("tupe_tiny", absolute="none", relative="none", reset="none")
    with torch.no_grad():
        plain, _ = model(tokens[:1])
        permuted, _ = model(tokens[:1, list(order)])
    torch.testing.assert_close(permuted, plain[:, list(order)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in ALL if SYSTEMS[name.rsplit("_", 1)[0]]["absolute"] != "none"])
def test_with_positions_it_is_not(build, tokens, name):
    model, order = build(name), [0, *range(12, 0, -1)]
    with torch.no_grad():
        plain, _ = model(tokens[:1])
        permuted, _ = model(tokens[:1, order])
    assert (permuted - plain[:, order]).abs().max() > 0.1


@pytest.mark.parametrize("name", ["tupe_a_tiny", "tupe_r_tiny"])
def test_theta_1_changes_no_output_and_has_no_gradient(build, tokens, name):
    """It is one constant over the whole softmax row of [CLS]; theta_2 is not."""
    model = build(name)
    vectors = model.encoder.sentence_encoder.position_bias.reset.vectors
    before, _ = model(tokens)
    before.square().sum().backward()
    assert vectors.grad[0].abs().max() < 1e-4 * vectors.grad[1].abs().max()
    with torch.no_grad():
        vectors[0] += 1
        torch.testing.assert_close(model(tokens)[0], before, rtol=1e-4, atol=1e-5)
        vectors[1].neg_().mul_(3)
        vectors[1, 0] += 5
        assert (model(tokens)[0] - before).abs().max() > 1e-3


def test_cls_attends_by_content_alone(build, tokens):
    model = build("tupe_r_tiny")
    with torch.no_grad():
        bias = model.encoder.sentence_encoder.position_bias(13).bias
    torch.testing.assert_close(bias[:, 0], bias[:, 0, :1].expand(-1, 13))


@pytest.mark.parametrize("name", ["tupe_tiny", "bert_ad_tiny"])
def test_position_terms_are_computed_once_a_batch_and_once_in_evaluation(build, tokens, name):
    model = build(name, encoder_layers=5)
    position = model.encoder.sentence_encoder.position_bias
    with patch.object(position, "compute", wraps=position.compute) as compute:
        model.train()
        for _ in range(3):
            model(tokens)
        assert compute.call_count == 3
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                model(tokens)
        assert compute.call_count == 4


def test_masked_tokens_by_mask_and_by_index(build, tokens):
    model = build("tupe_tiny")
    mask = torch.zeros_like(tokens, dtype=torch.bool)
    mask[0, 3] = mask[0, 7] = mask[1, 2] = True
    with torch.no_grad():
        everywhere, _ = model(tokens)
        by_mask, _ = model(tokens, masked_tokens=mask)
        by_index, _ = model(tokens, masked_tokens=mask.flatten().nonzero().squeeze(1), has_padding=True)
    torch.testing.assert_close(by_mask, everywhere[mask])
    torch.testing.assert_close(by_index, everywhere[mask])


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("prenorm", [False, True])
def test_activation_checkpointing_changes_no_gradient(build, tokens, name, prenorm):
    gradients = []
    for again in (False, True):
        fields = {"dropout": 0.1, "attention_dropout": 0.1, "encoder_normalize_before": prenorm}
        model = build(name, checkpoint_activations=again, **fields).train()
        torch.manual_seed(3)
        model(tokens)[0].square().mean().backward()
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=lambda m, n=name: f"{n}: {m}")


def test_every_parameter_gets_a_gradient(build, tokens):
    for name in ALL:
        model = build(name)
        model(tokens)[0].square().sum().backward()
        missing = [n for n, p in model.named_parameters() if p.grad is None]
        assert not missing, (name, missing)


@pytest.mark.parametrize("name", ["tupe_tiny", "bert_ad_tiny"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_agrees_with_float64(build, tokens, name, dtype):
    exact = build(name).double()
    half = build(name).to(dtype)
    exact.load_state_dict(half.state_dict())
    with torch.no_grad():
        expected, _ = exact(tokens)
        logits, _ = half(tokens)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed, _ = build(name)(tokens)
    real = tokens.ne(1)
    bound = {torch.float16: 1e-2, torch.bfloat16: 8e-2}[dtype]
    assert (logits[real].double() - expected[real]).norm() < bound * expected[real].norm()
    assert torch.isfinite(mixed).all()


def test_prenorm_and_no_embedding_norm(build, tokens):
    model = build("tupe_tiny", encoder_normalize_before=True, no_layernorm_embedding=True)
    features, extra = model(tokens, features_only=True, return_all_hiddens=True)
    states = extra["inner_states"]
    assert len(states) == 3
    torch.testing.assert_close(states[0].transpose(0, 1)[0], model.encoder.sentence_encoder.embed_tokens(tokens)[0])
    torch.testing.assert_close(features.mean(-1), torch.zeros(3, 13), atol=1e-5, rtol=0)


def test_classification_head(build, tokens):
    model = build("tupe_tiny")
    model.register_classification_head("glue", num_classes=3)
    scores, _ = model(tokens, classification_head_name="glue")
    assert scores.shape == (3, 3)


def test_longer_checkpoint_is_sliced_shorter_refused(build, tokens):
    for name in ("tupe_tiny", "bert_a_tiny"):
        long, short = build(name, max_positions=24), build(name, max_positions=13)
        short.load_state_dict(long.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(short(tokens)[0], long(tokens)[0])
        with pytest.raises(UserError, match=r"24 positions.*only 13"):
            long.load_state_dict(short.state_dict())


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"encoder_attention_heads": 5}, "5 (attention )?heads do not divide the width 24"),
        ({"absolute": "none", "relative": "none"}, "reset needs"),
        ({"absolute": "untied_cross"}, "reset needs"),
        ({"relative_buckets": 31}, "even"),
        ({"relative": "clipped", "relative_max_distance": 0}, "at least 1"),
    ],
)
def test_fields_that_do_not_fit(build, fields, match):
    with pytest.raises(UserError, match=match):
        build("tupe_tiny", **fields)


def test_long_sequences_are_refused(build, tokens):
    with pytest.raises(UserError, match=r"13 tokens is longer than the 8 positions"):
        build("tupe_tiny", max_positions=8)(tokens)
