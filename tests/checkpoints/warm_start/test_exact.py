"""What is exact: the first forward pass is the old model's, and what starts at zero has a gradient."""

import pytest
import torch

from tupe.checkpoints.warm_start.carry import permute_heads
from tupe.checkpoints.warm_start.start import target_fields, warm_start

ROWS = [
    ("bert_a", "bert_r", ("segment=per_head",)),
    ("bert_a", "bert_a", ("segment=input",)),
    *(("bert_a", "bert_a", (f"relative={relative}",)) for relative in ("clipped", "unbinned", "parametric", "fire")),
    ("bert_a", "bert_a", ("relative=shaw", "sharing=none")),
    ("bert_a", "bert_a", ("relative=shaw", "shaw_values=true")),
    ("bert_a", "bert_a", ("relative=deberta", "relative_buckets=4")),
    ("bert_a", "bert_a", ("relative=deberta", "sharing=none")),
    ("deberta", "deberta", ("sharing=none",)),
    ("tupe_a", "tupe_a", ("relative=deberta",)),
    ("bert_a", "bert_a", ("absolute=low_rank_input", "position_rank=4")),
    ("bert_a", "bert_a", ("content_terms=2",)),
    ("bert_a", "bert_r", ("sharing=none",)),
    ("tupe_a", "tupe_r", ()),
    ("tupe_a", "tupe_r", ("reset=paper", "sharing=none")),
    ("tupe_r", "tupe_r", ("sharing=none", "segment=per_head")),
    ("diet_abs", "diet_abs", ("sharing=none",)),
    ("kerple", "kerple", ("sharing=none",)),
    ("shaw", "shaw", ("segment=input",)),
    ("rope", "rope", ("relative=bucketed",)),
]


def output(encoder, tokens):
    """The logits at tokens that are no padding, in float64, whose rounding is no excuse."""
    return encoder.double()(tokens)[0][tokens.ne(1)]


@pytest.mark.parametrize(("source", "system", "fields"), ROWS, ids=str)
@pytest.mark.parametrize("before", [False, True], ids=["post-norm", "pre-norm"])
def test_the_outputs_stay(source, system, fields, before, make, tokens):
    old = make(f"{source}_tiny", encoder_normalize_before=before)
    started = warm_start(old, target_fields(old, system, list(fields)))
    new = started.encoder
    assert started.exact
    for field in fields:
        name, _, value = field.partition("=")
        assert str(getattr(new.args, name)).lower() == value
    torch.testing.assert_close(output(new, tokens), output(old, tokens), rtol=0, atol=1e-6)
    new.train()
    output(new, tokens).square().sum().backward()
    fresh = {name for name, _ in new.named_parameters()} - {name for name, _ in old.named_parameters()}
    learns = {name.rpartition(".")[0] for name, p in new.named_parameters() if p.grad is not None and p.grad.any()}
    stuck = {name for name in fresh if name.rpartition(".")[0] not in learns and "query" not in name}
    # they learn from the second update on, when the other factor is no longer zero
    later = {"relative=parametric": ("relative.weight",), "relative=deberta": ("table.weight",)}
    assert all(name.endswith(later.get(next(iter(fields), ""), ())) for name in stuck)


def test_a_term_of_a_layer_and_segments_that_are_lost(make, tokens):
    old = make("t5_tiny", sharing="head")
    old.sentence_encoder.input_segments.weight.data[0] = 0  # as in an imported BERT
    for field, exact in (("sharing=none", True), ("segment=none", False), ("sharing=layer", False)):
        started = warm_start(old, target_fields(old, "t5", [field]))
        assert started.exact == torch.allclose(output(started.encoder, tokens), output(old, tokens)) == exact
    assert not started.encoder.sentence_encoder.position_bias.relative.weight.any()  # was per layer, is per head


def test_heads_in_another_order(make, tokens):
    encoder = make(encoder_attention_heads=4)
    before = output(encoder, tokens)
    weight = encoder.sentence_encoder.layers[1].self_attn.qkv_proj.weight.clone()
    permute_heads(encoder, 1, torch.tensor([2, 0, 3, 1]))
    assert not torch.equal(encoder.sentence_encoder.layers[1].self_attn.qkv_proj.weight, weight)
    torch.testing.assert_close(output(encoder, tokens), before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("source", "system"), [("t5", "diet_rel"), ("diet_rel", "t5"), ("deberta", "fire")])
def test_a_term_of_another_kind_begins_anew(source, system, make):
    """Two terms can have parameters of the same name, and each has its own default number of buckets."""
    old = make(f"{source}_tiny", relative_buckets=4)
    assert warm_start(old, target_fields(old, system, [])).encoder.args.relative_buckets == 32
