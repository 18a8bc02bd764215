"""Transformers' models against fairseq's: the same logits for every system and part, by one configuration."""

import inspect
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.errors import StrictDataclassFieldValidationError

from tests.contract.fixtures.cases import SMALL
from tests.position.replicas import replica
from tupe import position
from tupe.hf.export import Loaded, config, weights
from tupe.models.config import TupeConfig, named
from tupe.models.tupe import TupeModel
from tupe.systems import system_fields

ours = pytest.importorskip("tupe.hf")

LONGEST = 40


@pytest.fixture(scope="module")
def dictionary():
    from tests.samples import dictionary_of

    return dictionary_of(*(f"word{index}" for index in range(30)), "<mask>")


def pair(dictionary, name, auto=ours.TupeForMaskedLM, **fields):
    """fairseq's model of a system, small, with weights that show every term; and Transformers' with the same."""
    task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: LONGEST)
    torch.manual_seed(0)
    model = TupeModel.build_model(named(f"{name}_tiny", **SMALL, max_positions=LONGEST, **fields), task).eval()
    model.register_classification_head("head", num_classes=3)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2) if parameter.ndim > 1 else parameter.data.add_(0.1)
    cfg = {"model": {"_name": f"{name}_tiny"}, "task": {"_name": "masked_lm"}, "criterion": {}}
    loaded = Loaded(model, dictionary.symbols, cfg, 0, "head", ["a", "b", "c"], "MaskedLM")
    content = config(loaded)
    theirs = auto(ours.TupeConfig(**content)).eval()
    state = weights(loaded)
    expected = theirs.state_dict()
    state.setdefault("lm_head.decoder.weight", state["tupe.embed_tokens.weight"])
    theirs.load_state_dict({key: state[key] for key in expected})
    return model.eval(), theirs


def tokens(length):
    """Three sequences `<s> ... </s>`, long ones with a pair and with padding."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(4, 34, (3, length), generator=generator)
    ids[:, 0], ids[:, -1] = 0, 2
    if length > 20:
        ids[0, 7:9] = ids[1, 3:5] = 2
        ids[1, 20:], ids[2, 9:] = 1, 1
        ids[1, 19], ids[2, 8] = 2, 2
    return ids


def difference(found, wanted):
    return ((found - wanted).abs().max() / wanted.abs().max().clamp(min=1)).item()


def test_defaults_are_the_plugins():
    theirs, names = ours.TupeConfig(), ours.configuration_tupe.NAMES
    config = TupeConfig()
    for field in {*system_fields(TupeConfig), *names} - {"untie_weights_roberta", "max_positions"}:
        assert getattr(theirs, names.get(field, field)) == getattr(config, field), field


@pytest.mark.parametrize("linear", [False, True])
@torch.no_grad()
def test_states_and_heads(dictionary, linear):
    fields = {"encoder_normalize_before": True, "linear_heads": linear, "dropout": 0.2}
    model, theirs = pair(dictionary, "tupe_r", ours.TupeForSequenceClassification, **fields)
    assert theirs.config.hidden_dropout_prob == 0.2
    ids = tokens(37)
    features, extra = model(ids, return_all_hiddens=True, features_only=True)
    found = theirs(ids, output_hidden_states=True)
    for state, wanted in zip(found.hidden_states, [*extra["inner_states"][:-1], features.transpose(0, 1)], strict=True):
        assert difference(state[ids.ne(1)], wanted.transpose(0, 1)[ids.ne(1)]) < 1e-5
    assert difference(theirs.tupe(ids).last_hidden_state[0], features[0]) < 1e-5
    assert difference(found.logits, model(ids, features_only=True, classification_head_name="head")[0]) < 1e-5
    head = theirs.classifier.train()
    head.dropout.p = 1.0
    assert torch.equal(head(features), head.out_proj.bias.expand(3, -1))
    head.eval()
    embedded = theirs(inputs_embeds=theirs.tupe.embed_tokens(ids).double(), attention_mask=ids.ne(1)).logits
    assert difference(embedded, found.logits) < 1e-5


@torch.no_grad()
def test_segments_and_lengths_are_the_users_too(dictionary):
    _, theirs = pair(dictionary, "diet_abs")
    ids = tokens(37)
    from_separators = theirs(ids).logits
    told = theirs.tupe.segments(ids).long()
    assert torch.equal(theirs(ids, token_type_ids=told).logits, from_separators)
    assert not torch.allclose(theirs(ids, token_type_ids=torch.zeros_like(ids)).logits, from_separators)
    both = theirs(ids, torch.ones_like(ids), told[:1].expand(3, -1)).logits
    assert torch.equal(theirs(ids, torch.ones(1, 37), told[:1]).logits, both)
    with pytest.raises(ValueError, match="41 tokens is longer than the 40 positions"):
        theirs(torch.zeros(1, LONGEST + 1, dtype=torch.long))
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        theirs()


@torch.no_grad()
def test_segments_of_questions():
    """`Trainer` keeps the columns that are named in `forward`."""
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    theirs = ours.TupeForQuestionAnswering(ours.TupeConfig(**small, vocab_size=40, segment="input")).eval()
    theirs.tupe.input_segments.weight.normal_()
    ids = tokens(37)
    assert "token_type_ids" in inspect.signature(theirs.forward).parameters
    assert not torch.allclose(theirs(ids, None, torch.ones_like(ids)).start_logits, theirs(ids).start_logits)


@pytest.mark.parametrize(
    ("labels", "fields"),
    [
        (torch.tensor([0, 1, -100]), {}),
        (torch.zeros(3, 4), {"problem_type": "multi_label_classification"}),
        (torch.tensor([0.5, 1.0, 3.0]), {"num_labels": 1}),
    ],
)
def test_labels_of_texts(labels, fields):
    """The losses of the parts of a batch, with the number of labels in the whole, sum to that of the whole."""
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = ours.TupeConfig(**small, vocab_size=40, **{"num_labels": 4, **fields})
    model = ours.TupeForSequenceClassification(config).eval()
    whole = model(tokens(5), labels=labels).loss
    parts = [
        model(tokens(5)[rows], labels=labels[rows], num_items_in_batch=labels.ne(-100).sum()).loss
        for rows in (slice(1), slice(1, 3))
    ]
    assert sum(parts).item() == pytest.approx(whole.item(), rel=1e-5)
    whole.backward()


@torch.no_grad()
def test_padding_on_the_left_is_refused(dictionary):
    model, theirs = pair(dictionary, "tupe_r")
    ids = tokens(37)
    left = torch.stack([row.roll(int(row.eq(1).sum())) for row in ids])
    for given in ({"input_ids": left}, {"input_ids": left, "attention_mask": left.ne(1).long()}):
        with pytest.raises(ValueError, match=r"hides the first token .*: pad on the right"):
            theirs(**given)
    with pytest.raises(ValueError, match=r"hides the first token .*: pad on the right"):
        model(left)
    empty = torch.cat([ids, torch.ones_like(ids[:1])])  # a sequence without tokens
    assert difference(theirs(empty).logits[:3][ids.ne(1)], model(ids)[0][ids.ne(1)]) < 1e-5


def test_sequences_side_by_side_are_refused(dictionary):
    _, theirs = pair(dictionary, "tupe_r")
    flat = torch.tensor([[0, 7, 2, 0, 8, 2]])
    with pytest.raises(AssertionError, match="pad the sequences"):
        theirs(flat, position_ids=torch.tensor([[0, 1, 2, 0, 1, 2]]))


@torch.no_grad()
def test_a_replica_of_data_parallel(dictionary):
    _, theirs = pair(dictionary, "tupe_r")
    assert torch.equal(replica(theirs)(tokens(8))[0], theirs(tokens(8))[0])


@pytest.mark.parametrize("field", ["reset", "segment"])
def test_what_is_not_computed_is_refused(field):
    """Else the model would lack a term in silence."""
    with pytest.raises(StrictDataclassFieldValidationError, match=f"'{field}' expected one of"):
        ours.TupeConfig(**{field: "other"})


@pytest.mark.parametrize("relative", ["alibi", "kerple", "fire"])
def test_new_models_and_terms_start_as_fairseqs(relative, tmp_path):
    """Though Transformers draws parameters after it has built them, and those that a file lacks without values."""
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 16}
    fields = {"relative": relative, "relative_sides": "learned"}
    ours.TupeForMaskedLM(ours.TupeConfig(**small, relative="none")).save_pretrained(tmp_path)
    loaded = ours.TupeForMaskedLM.from_pretrained(tmp_path, **fields).tupe
    started = {
        "alibi": position.AlibiRelative(4, relative_sides="learned"),
        "kerple": position.KerpleRelative(4),
        "fire": position.FireRelative(4, 512),
    }[relative]
    for model in (ours.TupeModel(ours.TupeConfig(**small, **fields)), loaded):
        term = model.position_bias.relative
        for (name, parameter), wanted in zip(term.named_parameters(), started.parameters(), strict=True):
            assert parameter.shape == wanted.shape
            if relative == "alibi" or parameter.numel() == 1:
                torch.testing.assert_close(parameter, wanted)
            else:
                assert parameter.std() > 0.3 * wanted.std() > 0, name
