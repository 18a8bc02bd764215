"""Decoding: step by step is all at once, and fairseq's search finds what it should."""

import itertools
import math
import random

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from tests.models.seq2seq.conftest import CASES

CLOSE = {"rtol": 0, "atol": 5e-5}


def generate(models, source, beam=4, kind=SequenceGenerator, **options):
    dictionary = models[0].encoder.dictionary
    generator = kind(models, dictionary, beam_size=beam, **{"max_len_b": 9, **options})
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(dictionary.pad()).sum(1)}}
    return generator.generate(models, sample)


def log_probabilities(models, source, tokens):
    """Of each of `tokens`, which a whole forward pass over one unpadded sentence gives; of an ensemble the mean."""
    source = source[source.ne(1)][None]
    previous = torch.cat([tokens.new_tensor([2]), tokens[:-1]])[None]
    with torch.no_grad():
        found = [model(source, None, previous)[0][0].log_softmax(-1) for model in models]
    mean = torch.logsumexp(torch.stack(found), 0) - math.log(len(found))
    return mean.gather(1, tokens[:, None])[:, 0]


def same(found, expected):
    for one, other in zip(itertools.chain(*found), itertools.chain(*expected)):
        assert one["tokens"].tolist() == other["tokens"].tolist()
        torch.testing.assert_close(one["positional_scores"], other["positional_scores"], **CLOSE)


@pytest.mark.parametrize("backend", ["auto", "reference", "factors"])
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_step_by_step_is_all_at_once(case, backend, build, source):
    """Beams that are reordered at random, also across sentences, and a batch that shrinks."""
    system, fields = CASES[case]
    model = build(system, **fields, attention_backend=backend)
    draw = random.Random(0)
    out, state = model.encoder(source), {}
    rows = [sentence for sentence in range(3) for _ in range(2)]  # two hypotheses a sentence
    out = model.encoder.reorder_encoder_out(out, torch.tensor(rows))
    tokens = torch.full((6, 1), 2)
    for step in range(10):
        logits = model.decoder(tokens, out, state)[0][:, -1]
        expected = model(source[rows], None, tokens)[0][:, -1]
        torch.testing.assert_close(logits, expected, **CLOSE)
        if step < 3:  # within a sentence, as beam search does
            order = [2 * (n // 2) + draw.randrange(2) for n in range(len(rows))]
        elif step == 3:  # the second sentence has ended
            order = [1, 0, 5, 4]
        else:
            order = [draw.randrange(len(rows)) for _ in range(draw.choice([len(rows), max(1, len(rows) - 1)]))]
        rows, tokens = [rows[n] for n in order], tokens[order]
        out = model.encoder.reorder_encoder_out(out, torch.tensor(order))
        model.decoder.reorder_incremental_state_scripting(state, torch.tensor(order))
        tokens = torch.cat([tokens, torch.tensor([[draw.randrange(4, 24)] for _ in rows])], 1)


@pytest.mark.parametrize("case", CASES)
def test_beam_search_scores_what_the_model_says(case, build, source):
    system, fields = CASES[case]
    model = build(system, **fields)
    found = generate([model], source)
    for row, hypotheses in zip(source, found):
        assert len(hypotheses) == 4
        for hypothesis in hypotheses:
            expected = log_probabilities([model], row, hypothesis["tokens"])
            torch.testing.assert_close(hypothesis["positional_scores"], expected, **CLOSE)
    same(generate([model], source), found)  # nothing is kept from the first search


@pytest.mark.parametrize("system", ["sinusoidal", "none", "t5", "shaw", "rope"])
@torch.no_grad()
def test_some_systems_go_on_beyond_the_task(system, build, source):
    model = build(system)
    assert min(model.max_positions()) == 1_000_000
    long = source[:1].repeat(1, 30)
    assert model(long, None, long)[0].shape == (1, 270, 24)


@pytest.mark.parametrize("system", ["learned", "diet_rel", "diet_abs", "tupe_a", "tupe_r"])
@torch.no_grad()
def test_tables_end(system, build, source, previous):
    model = build(system)
    assert model.max_positions() == (16, 12)
    tokens = [len(h["tokens"]) for row in generate([model], source, max_len_b=100) for h in row]
    assert max(tokens) <= 12  # fairseq's search ends at the table's end
    long = source[:1, :8].repeat(1, 3)
    with pytest.raises(ValueError, match="24 tokens is longer than the 16 positions"):
        model(long, None, previous[:1])
    with pytest.raises(ValueError, match="24 tokens is longer than the 12 positions"):
        model(source[:1], None, long)
    model(source[:1], None, long[:, :12])
