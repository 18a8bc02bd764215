"""Who shares the position terms: layers, heads or nobody (DIET, section 4.4)."""

from unittest.mock import patch

import pytest
import torch

from tupe.position import PositionBias, SegmentAttention

TERMS = [
    ("tupe_r", {}),
    ("tupe_r", {"reset": "release", "untied_projection_bias": True}),
    ("bert_ad", {}),
    ("bert_r", {"reset": "paper"}),
    ("diet_abs", {}),
    ("diet_rel", {"reset": "paper"}),
    ("tupe_a", {"absolute": "free"}),
    ("t5", {"relative": "clipped"}),
    ("t5", {"relative": "parametric"}),
    ("diet_abs_lin", {}),
]


def layers_of(model, tokens):
    """The position terms of each layer: bias, or query and key."""
    encoder = model.encoder.sentence_encoder
    with torch.no_grad():
        terms = encoder.layer_terms(tokens, torch.float32)
        return [[part for part in layer if part is not None] for (layer,) in terms]


def repeated(saved, shape):
    """`saved` written once for every set of a parameter of `shape`."""
    return saved.repeat([ours // theirs for ours, theirs in zip(shape, saved.shape)])


@pytest.mark.parametrize(("system", "fields"), TERMS)
def test_unshared_with_equal_sets_is_shared_and_one_set_touches_one_layer(build, pairs, system, fields):
    fields = {"segment": "none" if system == "diet_abs_lin" else "per_head", **fields}
    shared = build(f"{system}_tiny", sharing="layer", **fields)
    unshared = build(f"{system}_tiny", sharing="none", **fields)
    own = unshared.state_dict()
    state = {name: repeated(tensor, own[name].shape) for name, tensor in shared.state_dict().items()}
    unshared.load_state_dict(state)
    with torch.no_grad():
        torch.testing.assert_close(unshared(pairs)[0], shared(pairs)[0])
        before = layers_of(unshared, pairs)
        changed = 0
        for name, parameter in unshared.named_parameters():
            if own[name].shape != shared.state_dict()[name].shape:
                axis = [a != b for a, b in zip(own[name].shape, shared.state_dict()[name].shape)].index(True)
                second = parameter.chunk(2, axis)[1]  # the second layer's
                second.add_(torch.randn(second.shape))
                changed += 1
        assert changed
        after = layers_of(unshared, pairs)
    for part, was in zip(after[0], before[0]):
        torch.testing.assert_close(part, was)
    for part, was in zip(after[1], before[1]):
        assert (part - was).abs().max() > 0.1


@pytest.mark.parametrize(("system", "fields"), TERMS)
def test_heads_that_share_have_one_term_a_layer(build, pairs, system, fields):
    model = build(f"{system}_tiny", sharing="head", **fields)
    first, second = layers_of(model, pairs)
    for one, other in zip(first, second):
        assert one.shape[-3] == 1
        assert (one - other).abs().max() > 0.1


def counted(owner, method):
    return patch.object(owner, method, autospec=True, side_effect=getattr(owner, method))


@pytest.mark.parametrize("sharing", ["none", "layer", "head"])
def test_content_free_terms_once_a_batch_segments_once_where_shared(build, tokens, pairs, sharing):
    model = build("diet_abs_tiny", sharing=sharing, encoder_layers=5)
    encoder = model.encoder.sentence_encoder
    with counted(PositionBias, "compute") as compute, counted(SegmentAttention, "forward") as segments:
        model.train()(pairs)
        assert compute.call_count == 1
        assert segments.call_count == (1 if sharing == "layer" else 5)
        segments.reset_mock()
        model(tokens)  # single sentences: once, however the layers share
        assert segments.call_count == 1
        compute.reset_mock()
        model.eval()
        with torch.no_grad():
            for length in (13, 13, 8):
                model(pairs[:, :length])
        assert compute.call_count == 1
    if sharing == "layer":
        terms = list(encoder.layer_terms(pairs, torch.float32))
        assert all(layer is terms[0][0] for (layer,) in terms)
