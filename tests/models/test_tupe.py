"""The encoder of every system: its equation, its properties, its conveniences."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tupe.models.summary import count_parameters
from tupe.systems import ALIASES, MODEL_NAMES, SIZES, SYSTEMS
from tupe.util import UserError

ALL = [f"{system}_tiny" for system in SYSTEMS]


@pytest.mark.parametrize("fields", [{}, {"encoder_normalize_before": True}])
@pytest.mark.parametrize("name", ["tupe_r_tiny", "bert_a_tiny"])
def test_every_layer_norm_has_its_eps(build, name, fields):
    model = build(name, layer_norm_eps=1e-12, **fields)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert len(norms) >= 6 and {norm.eps for norm in norms} == {1e-12}


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_parameter_counts(name):
    """The specification's counts, for 512 positions."""
    system, size = name.rsplit("_", 1)
    fields = SYSTEMS[ALIASES.get(system, system)]
    width, heads, layers = (SIZES[size][f"encoder_{f}"] for f in ("embed_dim", "attention_heads", "layers"))
    sets = layers * heads if fields["sharing"] == "none" else heads
    k, untied = fields["linformer_k"], 512 * width + 2 * width**2 + 2 * width
    low_rank = sets * (512 + (k or 512)) * fields.get("position_rank", 0)
    absolute = {"none": 0, "input": 512 * width, "untied": untied, "untied_cross": untied, "low_rank": low_rank}
    shaw = layers * 257 * width // heads
    relative = {"none": 0, "bucketed": 32 * sets, "unbinned": 1023 * sets, "shaw": shaw}
    relative["deberta"] = 512 * width + 2 * width
    relative |= {"kerple": 4 * sets, "fire": 2 + 2 * 32 + 33 * sets}
    relative["alibi"] = 2 * sets * (fields.get("relative_sides") == "learned")
    theta = 2 * (width if fields["absolute"] == "untied" else sets) * (fields["reset"] != "none")
    position, total, _ = count_parameters(name, 32_768, 512)
    assert position == absolute[fields["absolute"]] + relative[fields["relative"]] + theta
    segment = {"none": 0, "input": 2 * width, "per_head": 4 * sets}[fields["segment"]]
    layer = 4 * width**2 + 4 * width + 8 * width**2 + 5 * width + 4 * width + k * 512
    head = width**2 + width + 2 * width + 32_768
    assert total == position + segment + 32_768 * width + 2 * width + layers * layer + head


@pytest.mark.parametrize(
    ("name", "fields", "published"),
    [
        ("bert_a", {}, 393_216),
        ("diet_abs", {}, 1_572_864),
        ("diet_abs", {"sharing": "none"}, 18_874_368),
        ("diet_abs", {"position_rank": 64}, 786_432),
        ("diet_rel", {}, 147_312),
        ("diet_rel", {"sharing": "layer"}, 12_276),
        ("diet_rel", {"sharing": "head"}, 12_276),
        ("tupe_a", {}, 1_179_648 + 393_216 + 2 * 768 + 2 * 768),
        ("alibi", {}, 0),
        ("alibi_learned", {}, 24),
        ("kerple", {}, 48),
        ("fire", {}, 462),
        ("bialibi", {}, 48),
        ("tupe_a_kerple", {}, 1_575_984),
        ("deberta", {}, 393_216 + 2 * 768),
        ("deberta", {"relative_buckets": 0, "relative_max_distance": 256}, 393_216 + 2 * 768),
        ("rope", {}, 0),
        ("tupe_a_rope", {}, 1_575_936),
    ],
)
def test_published_position_parameters(name, fields, published):
    """At base size with 512 positions (DIET, section 4.4; TUPE, section 3.1)."""
    assert count_parameters(f"{name}_base", 32_768, 512, **fields)[0] == published


@pytest.mark.parametrize(
    ("name", "fields", "millions"),
    [
        ("bert_a", {"segment": "input"}, 110.1),
        ("diet_rel", {}, 109.9),
        ("diet_rel", {"sharing": "layer"}, 109.7),
        ("diet_abs", {"sharing": "none"}, 128.6),
        ("diet_abs", {}, 111.3),
    ],
)
def test_diets_table_6(name, fields, millions):
    """30,522 word pieces, 512 positions, LM head, and BERT's pooler, which is the dense layer of our classification
    heads. Shaw's 112.9M is not among them: DIET does not say which distances and terms it counts."""
    pooler = 768 * 768 + 768
    assert round((count_parameters(f"{name}_base", 30_522, 512, **fields)[1] + pooler) / 1e6, 1) == millions


def test_names():
    assert len(MODEL_NAMES) == 22 * 4
    assert {"tupe_base", "tupe_r_base", "bert_ad_large", "tupe_a_tie_cls_small"} <= set(MODEL_NAMES)


@pytest.mark.parametrize(("name", "fields"), [*((name, {}) for name in ALL), ("shaw_tiny", {"shaw_values": True})])
def test_padding_on_the_right_changes_nothing(build, tokens, name, fields):
    model = build(name, **fields)
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
        by_index, _ = model(tokens, masked_tokens=mask.flatten().nonzero().squeeze(1), num_tokens=23)
    torch.testing.assert_close(by_mask, everywhere[mask])
    torch.testing.assert_close(by_index, everywhere[mask])


@pytest.mark.parametrize(("name", "prenorm"), [*((name, False) for name in ALL), ("tupe_r_tiny", True)])
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


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_agrees_with_float64(build, pairs, name, dtype):
    exact = build(name).double()
    half = build(name).to(dtype)
    exact.load_state_dict(half.state_dict())
    with torch.no_grad():
        expected, _ = exact(pairs)
        logits, _ = half(pairs)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed, _ = half.float()(pairs)
    real = pairs.ne(1)
    bound = {torch.float16: 1e-2, torch.bfloat16: 8e-2}[dtype]
    assert (logits[real].double() - expected[real]).norm() < bound * expected[real].norm()
    assert (mixed[real].double() - expected[real]).norm() < 8e-2 * expected[real].norm()


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


@pytest.mark.parametrize("name", ["tupe_tiny", "bert_a_tiny", "linformer_tiny", "diet_abs_lin_tiny"])
def test_a_longer_checkpoint_is_sliced(build, tokens, name):
    long, short = build(name, max_positions=24), build(name, max_positions=13)
    short.load_state_dict(long.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(short(tokens)[0], long(tokens)[0])


@pytest.mark.parametrize("name", ["tupe_tiny", "electra_tupe_tiny"])
def test_arguments_that_there_are_not(build, tokens, name):
    """What fairseq's tasks have in `net_input` is taken; what is misspelt does not go unread."""
    model, theirs = build(name), {"src_lengths": None, "src_id": None, "target_tokens": None}
    assert torch.equal(model(tokens, **theirs, prev_output_tokens=None)[0], model(tokens)[0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_token'"):
        model(tokens, num_token=tokens.ne(1).sum())


def test_long_sequences_are_refused(build, tokens):
    with pytest.raises(UserError, match=r"13 tokens is longer than the 8 positions"):
        build("tupe_tiny", max_positions=8)(tokens)
