"""Segments of a sentence pair, at the input and in the attention, in the whole model."""

import logging

import pytest
import torch

from tupe.models import encoder

MODES = ["input", "per_head"]


@pytest.mark.parametrize("segment", MODES)
@pytest.mark.parametrize("sharing", ["layer", "none"])
def test_padding_and_company_change_nothing(build, pairs, segment, sharing):
    """A pair beside a single sentence, padded, gives what each gives alone."""
    model = build("diet_abs_tiny", segment=segment, sharing=sharing)
    with torch.no_grad():
        together, _ = model(pairs)
        for row, length in enumerate((13, 8, 2)):
            alone, _ = model(pairs[row : row + 1, :length])
            torch.testing.assert_close(together[row, :length], alone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("segment", MODES)
def test_pairs_use_them_and_single_sentences_only_the_first(build, tokens, pairs, segment):
    model = build("diet_rel_tiny", segment=segment)
    encoder = model.encoder.sentence_encoder
    weight = (encoder.segment_attention or encoder.input_segments).weight
    with torch.no_grad():
        single, pair = model(tokens)[0], model(pairs)[0]
        weight[..., -1, :].add_(torch.randn(weight.shape[-1]))  # E[1] or E_S[1, :]
        torch.testing.assert_close(model(tokens)[0], single)
        assert (model(pairs)[0] - pair).abs().max() > 1e-2


@torch.no_grad()
def test_single_sentences_have_one_bias_for_the_batch(build, tokens, pairs):
    encoder = build("diet_abs_tiny").encoder.sentence_encoder
    position = encoder.position_bias(13).bias  # (H, n, n)
    first = encoder.segment_attention.weight[0, :, :1, :1]  # (H, 1, 1)
    torch.testing.assert_close(next(encoder.layer_terms(tokens, torch.float32))[0].bias, position + first)
    assert next(encoder.layer_terms(pairs, torch.float32))[0].bias.shape == (3, 3, 13, 13)


@torch.no_grad()
def test_only_pairs_ask_for_parts(build, tokens, pairs, monkeypatch):
    """On a GPU the parts cost more products than the one dense bias of single sentences."""
    asked = []
    monkeypatch.setattr(encoder, "prefers_structured", lambda *given: bool(asked.append(given[4])))
    model = build("diet_abs_tiny")
    model(tokens), model(pairs)
    assert asked == [False, True]


@torch.no_grad()
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_segments_alone(build, tokens, pairs, backend):
    """Without any position, single sentences see no difference to no segments at all."""
    fields = {"relative": "none", "attention_backend": backend, "sharing": "none"}
    model, without = build("t5_tiny", segment="per_head", **fields), build("t5_tiny", segment="none", **fields)
    model.load_state_dict(without.state_dict(), strict=False)
    torch.nn.init.normal_(model.encoder.sentence_encoder.segment_attention.weight)
    torch.testing.assert_close(model(tokens)[0], without(tokens)[0])
    assert (model(pairs)[0] - without(pairs)[0]).abs().max() > 1e-2


@pytest.mark.parametrize("segment", MODES)
def test_checkpoint_without_segments_is_the_same_function_at_first(build, pairs, segment, caplog):
    """DIET pre-trains without and fine-tunes with: the new parameters are said, start at zero, and learn."""
    pretrained, model = build("diet_abs_tiny", segment="none"), build("diet_abs_tiny", segment=segment)
    with caplog.at_level(logging.INFO, logger="tupe.position.segment"):
        model.load_state_dict(pretrained.state_dict())
    (said,) = [record.getMessage() for record in caplog.records]
    name = {"input": "input_segments", "per_head": "segment_attention"}[segment]
    assert f"encoder.sentence_encoder.{name}.weight" in said and "starts at zero" in said
    torch.testing.assert_close(model(pairs)[0], pretrained(pairs)[0])
    model(pairs)[0].square().sum().backward()
    assert dict(model.named_parameters())[f"encoder.sentence_encoder.{name}.weight"].grad.abs().max() > 0


@pytest.mark.parametrize("segment", MODES)
def test_nothing_else_may_lack(build, segment, caplog):
    model = build("diet_abs_tiny", segment=segment)
    state = model.state_dict()
    with caplog.at_level(logging.INFO, logger="tupe.position.segment"):
        build("diet_abs_tiny", segment=segment).load_state_dict(state)
    assert not caplog.records
    del state["encoder.sentence_encoder.position_bias.absolute.key"]
    with pytest.raises(RuntimeError, match=r"Missing key.*absolute.key"):
        model.load_state_dict(state)
