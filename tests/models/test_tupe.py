"""The models: their parameters, their names, and what `forward` takes."""

import pytest
import torch

from tupe.models.summary import meta_model, size_of


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
    assert size_of(meta_model(f"{name}_base", 32_768, 512, **fields)).position == published


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
    counted = size_of(meta_model(f"{name}_base", 30_522, 512, **fields)).total
    assert round((counted + pooler) / 1e6, 1) == millions


def test_frozen_layers(build):
    model = build("tupe_tiny", encoder_normalize_before=True)
    model.freeze_layers(1)
    parameters = model.encoder.sentence_encoder.named_parameters()
    assert {name[:8] for name, p in parameters if p.requires_grad} == {"layers.1", "layer_no"}


@pytest.mark.parametrize("name", ["tupe_tiny", "electra_tupe_tiny"])
def test_arguments_that_there_are_not(build, tokens, name):
    """What fairseq's tasks have in `net_input` is taken; what is misspelt does not go unread."""
    model, theirs = build(name), {"src_lengths": None, "src_id": None, "target_tokens": None}
    assert torch.equal(model(tokens, **theirs, prev_output_tokens=None)[0], model(tokens)[0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_token'"):
        model(tokens, num_token=tokens.ne(1).sum())
