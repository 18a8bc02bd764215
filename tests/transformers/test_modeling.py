"""The shipped model files against fairseq's models: the same logits for every system and sharing, and both norms."""

import math
import re
from types import SimpleNamespace

import pytest
import torch

from tests.models.small import KINDS
from tupe import position, systems
from tupe.checkpoints.to_transformers import Loaded, config, weights
from tupe.checkpoints.transformers_format import CHOICES
from tupe.models.config import CONFIGS
from tupe.models.tupe import TupeModel
from tupe.systems import SYSTEMS
from tupe.transformers import configuration_tupe

ours = pytest.importorskip("tupe.transformers")

LONGEST = 40
#: Parts that no named system has.
PARTS = {
    "free": {"absolute": "free"},
    "low_rank_input": {"absolute": "low_rank_input", "relative": "none", "reset": "none"},
    "clipped": {"relative": "clipped", "relative_max_distance": 6},
    "parametric": {"relative": "parametric", "relative_max_distance": 6},
    "release": {"reset": "release", "untied_projection_bias": True},
    "shaw_values": {"absolute": "none", "relative": "shaw", "reset": "none", "shaw_values": True},
    "deberta_buckets": {"relative": "deberta", "relative_buckets": 6, "relative_max_distance": 9},
    "deberta_clipped": {"relative": "deberta", "relative_buckets": 0, "relative_max_distance": 6},
    "theta_scalars": {"absolute": "none"},
    "alibi_symmetric": {"relative": "alibi", "relative_sides": "symmetric"},
    "rope_of_some": {"rotary_dims": 4, "rotary_base": 30.0},
    "unbinned": {"relative": "unbinned", "rotary_dims": -1},
    "rope_cross": {"rotary_dims": -1, "absolute": "untied_cross", "reset": "none"},
    "fire_ends": {"relative": "fire", "fire_length": 9.0, "fire_width": 5},
    "segments": {"segment": "per_head", "no_layernorm_embedding": True},
    "layer_norm_eps": {"layer_norm_eps": 0.3, "encoder_normalize_before": True},
    "one_separator": {"segment": "per_head", "pair_separators": 1},
    "untied_output": {"untie_weights_roberta": True, "activation_fn": "gelu_accurate"},
}


@pytest.fixture(scope="module")
def dictionary():
    from tests.samples import dictionary_of

    return dictionary_of(*(f"word{index}" for index in range(30)), "<mask>")


def pair(dictionary, name, auto=ours.TupeForMaskedLM, **fields):
    """fairseq's model of a system, small, with weights that show every term; and Transformers' with the same."""
    small = {
        "encoder_layers": 2,
        "encoder_embed_dim": 24,
        "encoder_ffn_embed_dim": 32,
        "encoder_attention_heads": 3,
        "max_positions": LONGEST,
    }
    task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: LONGEST)
    torch.manual_seed(0)
    model = TupeModel.build_model(CONFIGS[f"{name}_tiny"](**{**small, **fields}), task).eval()
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


@pytest.mark.parametrize(
    ("system", "sharing", "prenorm"),
    [
        *((system, sharing, False) for system in (*SYSTEMS, *PARTS) for sharing in ("none", "layer", "head")),
        *((system, "layer", True) for system in KINDS),
    ],
)
@torch.no_grad()
def test_logits_are_those_of_fairseq(dictionary, system, sharing, prenorm):
    fields = {"sharing": sharing, "encoder_normalize_before": prenorm, **PARTS.get(system, {})}
    if sharing == "head" and {**SYSTEMS.get(system, {}), **fields}.get("relative") == "alibi":
        pytest.skip("ALiBi's heads have slopes of their own")
    model, theirs = pair(dictionary, system if system in SYSTEMS else "tupe_r", **fields)
    for length in (1, 2, 37, LONGEST):
        ids = tokens(length)
        wanted = model(ids)[0]
        for attention in ("sdpa", "eager", "tupe"):
            if attention == "tupe" and system == "shaw_values":
                continue
            theirs.set_attn_implementation(attention)
            assert difference(theirs(ids).logits, wanted) < 1e-5, (length, attention)
        theirs.set_attn_implementation("sdpa")
        assert difference(theirs(ids, attention_mask=ids.ne(1).long()).logits, wanted) < 1e-5, length


@pytest.mark.parametrize("sharing", ["none", "head"])
@pytest.mark.parametrize("system", ["tupe_r", "shaw", "deberta", "rope", "diet_abs", "linformer"])
@torch.no_grad()
def test_logits_by_flex_attention(dictionary, system, sharing):
    """Not compiled, which takes longer than all the other tests here."""
    model, theirs = pair(dictionary, system, sharing=sharing)
    theirs.set_attn_implementation("flex_attention")
    with torch.compiler.set_stance("force_eager"):
        for length in (1, 37):
            ids = tokens(length)
            assert difference(theirs(ids, attention_mask=ids.ne(1).long()).logits, model(ids)[0]) < 1e-5, length


@pytest.mark.parametrize("system", SYSTEMS)
@torch.no_grad()
def test_frozen_positions_and_half_precision(dictionary, system):
    model, theirs = pair(dictionary, system)
    ids = tokens(37)
    wanted = model(ids)[0]
    half = theirs(ids).logits, model.to(torch.bfloat16)(ids)[0], theirs.to(torch.bfloat16)(ids).logits
    theirs.float()
    model, theirs = pair(dictionary, system)
    theirs.tupe.freeze_positions()
    assert difference(theirs(ids).logits, wanted) < 1e-5
    whole, fairseq_half, their_half = (x.float() for x in half)
    assert difference(their_half, whole) < 2 * difference(fairseq_half, whole) + 1e-2


@torch.no_grad()
def test_a_cast_leaves_the_angles_of_frozen_positions(dictionary):
    _, theirs = pair(dictionary, "tupe_a_rope")
    wanted = theirs.tupe.position_bias(37, torch.device("cpu")).rotation
    theirs.tupe.freeze_positions()
    found = theirs.to(torch.bfloat16).tupe.position_bias(37, torch.device("cpu")).rotation
    assert found.dtype == torch.float32
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("sharing", ["none", "layer"])
@pytest.mark.parametrize("system", ["alibi", "alibi_symmetric", "rope", "rope_of_some"])
@torch.no_grad()
def test_fixed_terms_are_the_plugins_and_never_copied_from_the_host(dictionary, system, sharing, monkeypatch):
    name = system if system in SYSTEMS else "tupe_a"
    model, theirs = pair(dictionary, name, sharing=sharing, **PARTS.get(system, {}))
    wanted = model.encoder.sentence_encoder.position_bias(37, torch.float32)
    monkeypatch.setattr(torch, "tensor", lambda *given, **options: pytest.fail("a copy from the host"))
    found = theirs.tupe.position_bias(37, torch.device("cpu"))
    for part in ("bias", "rotation"):
        if getattr(wanted, part) is None:
            assert getattr(found, part) is None
        elif name == "tupe_a" and part == "bias":
            torch.testing.assert_close(found.bias, wanted.bias)  # learnt products too
        else:
            assert torch.equal(getattr(found, part), getattr(wanted, part))


@torch.no_grad()
def test_boundaries_of_buckets_are_copied_from_the_host_once_a_batch(dictionary, monkeypatch):
    _, theirs = pair(dictionary, "deberta")
    starts, make, copied = theirs.tupe.position_bias.embeddings.starts, torch.tensor, []
    monkeypatch.setattr(torch, "tensor", lambda *given, **options: copied.append(given[0]) or make(*given, **options))
    theirs(tokens(37))
    assert copied.count(starts) == 1


@pytest.mark.parametrize("linear", [False, True])
@torch.no_grad()
def test_states_and_heads(dictionary, linear):
    fields = {"encoder_normalize_before": True, "linear_heads": linear}
    model, theirs = pair(dictionary, "tupe_r", ours.TupeForSequenceClassification, **fields)
    ids = tokens(37)
    features, extra = model(ids, return_all_hiddens=True, features_only=True)
    found = theirs(ids, output_hidden_states=True)
    for state, wanted in zip(found.hidden_states[:-1], extra["inner_states"]):
        assert difference(state, wanted.transpose(0, 1)) < 1e-5
    assert difference(found.hidden_states[-1], features) < 1e-5
    assert difference(found.logits, model(ids, features_only=True, classification_head_name="head")[0]) < 1e-5
    theirs.set_attn_implementation("eager")
    weights = theirs(ids, output_attentions=True).attentions
    assert [w.shape for w in weights] == [(3, 3, 37, 37)] * 2
    assert torch.allclose(weights[0].sum(-1), torch.ones(3, 3, 37))
    embedded = theirs(inputs_embeds=theirs.tupe.embed_tokens(ids).double(), attention_mask=ids.ne(1)).logits
    assert difference(embedded, found.logits) < 1e-5
    for attention in ("eager", "sdpa"):  # 0 hides a key also in a mask of four axes
        theirs.set_attn_implementation(attention)
        keys = ids.ne(1)[:, None, None, :]
        assert torch.equal(theirs(ids, attention_mask=keys.long()).logits, theirs(ids, attention_mask=keys).logits)


@pytest.mark.parametrize("system", ["tupe_r", "diet_rel", "shaw", "deberta", "rope", "bert_ad"])
def test_gradients_are_those_of_fairseq(dictionary, system):
    model, theirs = pair(dictionary, system, dropout=0.0, attention_dropout=0.0)
    ids = tokens(37)
    labels = ids.masked_fill(ids.eq(1), -100)
    theirs(ids, labels=labels).loss.backward()
    logits = model(ids)[0]
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    ours_by_name = dict(model.named_parameters())
    for name, parameter in theirs.tupe.named_parameters():
        wanted = ours_by_name[f"encoder.sentence_encoder.{name}"].grad
        if wanted is not None:
            assert (parameter.grad - wanted).abs().max() < 1e-5, name
    before = {name: p.grad.clone() for name, p in theirs.named_parameters() if p.grad is not None}
    theirs.zero_grad()
    theirs.gradient_checkpointing_enable()
    theirs.train()(ids, labels=labels).loss.backward()
    assert all(torch.allclose(p.grad, before[n], atol=1e-6) for n, p in theirs.named_parameters() if n in before)


@torch.no_grad()
def test_segments_and_lengths_are_the_users_too(dictionary):
    _, theirs = pair(dictionary, "diet_abs")
    ids = tokens(37)
    from_separators = theirs(ids).logits
    told = ours.modeling_tupe.segment_ids(ids, theirs.config)
    assert torch.equal(theirs(ids, token_type_ids=told).logits, from_separators)
    assert not torch.allclose(theirs(ids, token_type_ids=torch.zeros_like(ids)).logits, from_separators)
    with pytest.raises(ValueError, match="41 tokens is longer than the 40 positions"):
        theirs(torch.zeros(1, LONGEST + 1, dtype=torch.long))
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        theirs()


@torch.no_grad()
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attention_mask": torch.ones(3, 36)}, r"attention_mask is \(3, 36\), but must be \(B, n\) = \(3, 37\)"),
        ({"token_type_ids": torch.zeros(37).long()}, r"token_type_ids is \(37,\), but must be \(B, n\) = \(3, 37\)"),
        ({"input_ids": tokens(37)[0]}, r"the words are \(37, \d+\), but must be \(B, n, \d+\): give input_ids"),
        ({"labels": tokens(37)[:, :3]}, r"labels are \(3, 3\), but must be \(B, n\) = \(3, 37\)"),
        ({"input_ids": None, "inputs_embeds": torch.zeros(3, 37, 5)}, r"the words are \(3, 37, 5\), but must be"),
        (
            {"input_ids": None, "inputs_embeds": torch.zeros(3, 37, 24).long()},
            "inputs_embeds are torch.int64, but must be",
        ),
        ({"attention_mask": torch.ones(3, 1, 5, 37)}, r"attention_mask is \(3, 1, 5, 37\), but must be \(B, n\)"),
        ({"attention_mask": torch.ones(2, 37)}, r"attention_mask is \(2, 37\), but must be \(B, n\)"),
        ({"position_ids": tokens(37)}, "the model has no position_ids: nothing would read it"),
        (
            {"atention_mask": torch.ones(3, 37)},
            r"the model has no atention_mask \(did you mean attention_mask\?\): nothing would",
        ),
        ({"lables": tokens(37)}, r"the model has no lables \(did you mean labels\?\): nothing would read it"),
        ({"input_ids": torch.zeros(0, 5).long()}, r"the words are \(0, 5, 24\), which is no token: give a sequence"),
        ({"input_ids": torch.zeros(2, 0).long()}, r"the words are \(2, 0, 24\), which is no token"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(dictionary, change, said):
    _, theirs = pair(dictionary, "tupe_r")
    with pytest.raises(ValueError, match=f"^{said}"):
        theirs(**{"input_ids": tokens(37), **change})


def test_a_mask_of_pairs_is_refused_by_linformer(dictionary):
    _, theirs = pair(dictionary, "linformer")
    with pytest.raises(
        ValueError, match=r"^Linformer's keys are mixtures of all positions: give attention_mask \(B, n"
    ):
        theirs(tokens(37), attention_mask=torch.ones(3, 1, 37, 37))


@torch.no_grad()
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input_ids": tokens(37) - 50}, r"input_ids are numbers from -\d+ to -?\d+, but must be from 0 to \d+: give"),
        (
            {"input_ids": tokens(37) + 5000},
            r"input_ids are numbers from \d+ to 50\d+, but must be .* new tokens, resize_token_embeddings first",
        ),
        ({"input_ids": tokens(37).ne(1)}, "input_ids are torch.bool, but must be whole numbers"),
        (
            {"input_ids": tokens(37).tolist()},
            r"input_ids is a list, but must be a tensor: give torch.tensor\(input_ids\)",
        ),
        ({"input_ids": tokens(37).to("meta")}, "input_ids is on meta, which holds no numbers: make it on cpu"),
        (
            {"input_ids": tokens(37).to_sparse()},
            r"input_ids is torch.sparse_coo, but must be dense: give input_ids.to_d",
        ),
        ({"input_ids": torch.nested.nested_tensor([*tokens(37)])}, "input_ids is a nested tensor: pad it on the right"),
        ({"attention_mask": tokens(37).tolist()}, "attention_mask is a list, but must be a tensor"),
        ({"labels": tokens(37).tolist()}, "labels is a list, but must be a tensor"),
        ({"labels": tokens(37).float()}, r"labels are torch.float32, but must be torch.int64.*: give labels.long\(\)"),
        ({"labels": tokens(37) + 5000}, r"labels are numbers from 50\d+ to \d+, but must be from 0 to \d+: .* or -100"),
        ({"token_type_ids": tokens(37)}, r"token_type_ids are numbers from 0 to \d+, but must be from 0 to 1"),
    ],
)
def test_numbers_without_a_row_are_refused(dictionary, change, said):
    _, theirs = pair(dictionary, "bert_a", segment="input")
    with pytest.raises(ValueError, match=f"^{said}"):
        theirs(**{"input_ids": tokens(37), **change})


@pytest.mark.parametrize(
    ("labels", "fields", "said"),
    [
        (
            torch.zeros(3),
            {},
            r"labels are torch.float32 \(3,\), but must be whole numbers \(B,\) .* \(B, L\) = \(3, 4\)",
        ),
        (torch.zeros(3), {"problem_type": "single_label_classification"}, "labels are torch.float32, but must be"),
        (torch.zeros(3, 2).long(), {}, r"labels are \(3, 2\), but must be \(B,\) = \(3,\)"),
        (torch.tensor([0, 1, 9]), {}, "labels are numbers from 0 to 9, but must be from 0 to 3"),
        (torch.zeros(2), {"num_labels": 1}, r"labels are torch.float32 \(2,\), but must be"),
        ([0, 1, 2], {}, "labels is a list, but must be a tensor"),
        (torch.tensor([0, 1, -100]), {}, None),
        (torch.zeros(3, 1).long(), {}, None),
        (torch.zeros(3, 4).double(), {}, None),
        (torch.zeros(3).double(), {"num_labels": 1}, None),
        (torch.zeros(3, 1).long(), {"num_labels": 1}, None),
    ],
)
def test_labels_of_texts(labels, fields, said):
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = ours.TupeConfig(**small, vocab_size=40, **{"num_labels": 4, **fields})
    model = ours.TupeForSequenceClassification(config)
    if said is None:
        model(tokens(5), labels=labels).loss.backward()
    else:
        with pytest.raises(ValueError, match=f"^{said}"):
            model(tokens(5), labels=labels)


def test_places_of_answers_are_whole_numbers():
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = ours.TupeForQuestionAnswering(ours.TupeConfig(**small, vocab_size=40))
    for wrong in (torch.ones(3), torch.ones(2).long()):
        with pytest.raises(
            ValueError, match=r"^end_positions are torch.\w+ \(\d,\), but must be torch.int64 \(B,\) = \(3,\)"
        ):
            model(tokens(5), start_positions=torch.ones(3).long(), end_positions=wrong)
    for side in ("start_positions", "end_positions"):
        with pytest.raises(ValueError, match=r"^only one of start_positions and end_positions is given: give both"):
            model(tokens(5), **{side: torch.ones(3).long()})


def test_a_misspelt_field_is_a_warning(monkeypatch):
    said = []
    monkeypatch.setattr(configuration_tupe.logger, "warning", said.append)
    ours.TupeConfig(realtive="none", num_layers=7, my_note="kept", output_hidden_states=True)
    assert said == [
        "TupeConfig has no realtive (did you mean relative?): nothing will read it",
        "TupeConfig has no num_layers (did you mean num_hidden_layers?): nothing will read it",
    ]


@pytest.mark.parametrize("kind", ["TupeForSequenceClassification", "TupeForTokenClassification"])
def test_a_head_without_labels_is_refused(kind):
    with pytest.raises(ValueError, match=r"^num_labels is 0, but a head has 1 label or more: give num_labels="):
        getattr(ours, kind)(ours.TupeConfig(num_hidden_layers=1, vocab_size=9, num_labels=0))
    with pytest.raises(ValueError, match=r"^problem_type is 'x', but must be one of regression, single_label_class"):
        getattr(ours, kind)(ours.TupeConfig(num_hidden_layers=1, vocab_size=9, problem_type="x"))


@torch.no_grad()
def test_padding_on_the_left_is_refused(dictionary):
    model, theirs = pair(dictionary, "tupe_r")
    ids = tokens(37)
    left = torch.stack([row.roll(int(row.eq(1).sum())) for row in ids])
    for given in ({"input_ids": left}, {"input_ids": left, "attention_mask": left.ne(1).long()}):
        with pytest.raises(ValueError, match=r"hides the first token .*: pad on the right"):
            theirs(**given)
    empty = torch.cat([ids, torch.ones_like(ids[:1])])  # a sequence without tokens
    assert difference(theirs(empty).logits[:3], model(ids)[0]) < 1e-5
    traced = torch.jit.trace(theirs, ids, strict=False, check_trace=False)  # nothing is checked there
    assert difference(traced(ids)["logits"], model(ids)[0]) < 1e-5
    assert traced(left)["logits"].shape == (3, 37, len(dictionary))


@torch.no_grad()
def test_special_tokens_that_are_none_or_several():
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    small |= {"vocab_size": 9, "segment": "per_head", "pair_separators": 1}
    torch.manual_seed(0)
    model, ids = ours.TupeModel(ours.TupeConfig(**small, pad_token_id=None)).eval(), torch.tensor([[0, 5, 2, 6, 1]])
    told = {"attention_mask": torch.ones_like(ids), "token_type_ids": torch.tensor([[0, 0, 0, 1, 1]])}
    assert torch.equal(model(ids).last_hidden_state, model(ids, **told).last_hidden_state)
    for several in (None, [2, 3]):
        model.config.eos_token_id = several
        with pytest.raises(ValueError, match=r"^eos_token_id is .*, but one token separates the texts of a pair: set"):
            model(ids)
        assert model(ids, **told).last_hidden_state.isfinite().all()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("relative", "nosuch", "relative is 'nosuch', not one of none"),
        ("num_attention_heads", 5, "hidden_size is 768, which num_attention_heads=5 must divide"),
        ("hidden_size", "8", "hidden_size is '8', but must be a whole number"),
        ("linformer_k", 4, "the keys of linformer_k=4 are mixtures"),
        ("model_type", "bert", "config is of the model bert, but must be a TupeConfig"),
    ],
)
def test_a_field_that_is_set_later_is_checked(field, value, said):
    config = ours.TupeConfig()
    setattr(config, field, value)
    with pytest.raises(ValueError, match=f"^{said}"):
        ours.TupeModel(config)


def test_a_choice_that_is_none_is_refused():
    assert ours.configuration_tupe.CHOICES.items() <= CHOICES.items()
    for field, choices in ours.configuration_tupe.CHOICES.items():
        for other in ("other", None, [choices[0]]):
            with pytest.raises(ValueError, match=re.escape(f"{field} is {other!r}, not one of {choices[0]}, ")):
                ours.TupeConfig(**{field: other})


@pytest.mark.parametrize("field", ours.configuration_tupe.SIZES)
def test_a_size_that_cannot_be_is_refused(field):
    for size in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"^{field} is {size}, but must be a whole number from 1$"):
            ours.TupeConfig(**{field: size})


@pytest.mark.parametrize(
    ("field", "values", "said"),
    [
        ("hidden_dropout_prob", (-0.5, 1.5, math.nan, "x", None), "a number from 0 to 1"),
        ("attention_probs_dropout_prob", (-1, {}), "a number from 0 to 1"),
        ("layer_norm_eps", (-1, math.inf, True), "a number from 0 to 1"),
        ("initializer_range", (-1, 1e9), "a number from 0 to 100"),
        ("fire_length", (-1, math.inf, "x"), "a number from 0 to 1e.38"),
        ("hidden_act", ("nosuch", None, []), "one of Transformers"),
        ("pooler_act", ("8",), "one of Transformers"),
        ("pad_token_id", (-1, 1.5), "a whole number from 0"),
        ("bos_token_id", (True, "0"), "a whole number from 0, or none"),
        ("eos_token_id", (1.5, [2, "3"], [2, -1]), "a whole number from 0, or a list of such, or none"),
        ("rotary_base", ("8", None, math.nan), "a number from 0"),
        ("pad_token_id", (32768,), "below vocab_size=32768"),
        ("rotary_dims", ("x",), "a whole number from -1"),
        ("pair_separators", ("8", 3, True), "a whole number from 1 to 2"),
        ("encoder_normalize_before", ("false", 1), "true or false"),
        ("num_labels", ("2", None, -1, True), "a whole number from 0"),
        ("id2label", ("x", ["a"], {"a": 0}), "names of the numbers of classes"),
        ("dtype", ("nosuch", "nn", "auto"), "a type of PyTorch, such as float32"),
    ],
)
def test_a_number_or_an_activation_that_cannot_be_is_refused(field, values, said):
    for value in values:
        with pytest.raises(ValueError, match=f"^{field} is {re.escape(repr(value))}, but must be {said}"):
            ours.TupeConfig(**{field: value})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"relative_buckets": 7}, "relative_buckets is 7 and relative_max_distance 128, but buckets come in two"),
        ({"relative_buckets": 2}, "relative_buckets is 2 and"),
        ({"relative_max_distance": 8}, "relative_buckets is 32 and relative_max_distance 8,"),
        *(({"absolute": kind, "relative": "none"}, "the reset needs") for kind in ("none", "input", "untied_cross")),
        ({"absolute": "none", "relative": "shaw"}, "the reset needs a correlation of positions alone"),
        ({"relative": "alibi", "sharing": "head"}, ".* cannot share one: set sharing to layer or none"),
        ({"num_attention_heads": 7}, "hidden_size is 768, which num_attention_heads=7 must divide"),
    ],
)
def test_terms_that_the_plugin_refuses(fields, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        ours.TupeConfig(**fields)


@pytest.mark.parametrize("relative", ["alibi", "kerple", "fire"])
def test_new_models_start_as_fairseqs(relative):
    """Though Transformers draws parameters after it has built them."""
    torch.manual_seed(0)
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 16}
    config = ours.TupeConfig(relative=relative, relative_sides="learned", max_position_embeddings=128, **small)
    term = ours.TupeModel(config).position_bias.relative
    started = {
        "alibi": position.AlibiRelative(4, relative_sides="learned"),
        "kerple": position.KerpleRelative(4),
        "fire": position.FireRelative(4, 128),
    }[relative]
    for (name, parameter), wanted in zip(term.named_parameters(), started.parameters(), strict=True):
        assert parameter.shape == wanted.shape
        if relative == "alibi" or parameter.numel() == 1:
            torch.testing.assert_close(parameter, wanted)
        else:
            assert parameter.std() > 0.3 * wanted.std() > 0, name


def test_distances_are_float32_whatever_the_default_type():
    config = ours.TupeConfig(relative="alibi", hidden_size=32, num_attention_heads=4)
    term, distance = ours.modeling_tupe.AlibiRelative(config), torch.arange(-1023, 1024)
    wanted = term.by_distance(distance)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(term.by_distance(distance), wanted)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("auto", sorted(set(ours.__all__) - {"TupeConfig"}))
def test_saved_and_loaded_again_is_the_same(tmp_path, auto):
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = getattr(ours, auto)(ours.TupeConfig(vocab_size=20, max_position_embeddings=8, **small, num_labels=3)).eval()
    model.save_pretrained(tmp_path)
    again = getattr(ours, auto).from_pretrained(tmp_path).eval()
    for (name, parameter), other in zip(model.named_parameters(), again.parameters()):
        assert torch.equal(parameter, other), name
    ids = torch.tensor([[0, 5, 6, 2]])
    assert torch.equal(model(ids)[0], again(ids)[0])
    if auto == "TupeForMaskedLM":
        assert again.lm_head.decoder.weight is again.tupe.embed_tokens.weight
        assert model.resize_token_embeddings(22).weight.shape == (22, 16)
        assert model(ids).logits.shape == (1, 4, 22)
    weights = tmp_path / "model.safetensors"
    with pytest.raises(ValueError, match=rf"^{weights} is a file: give the folder to save the model in$"):
        again.save_pretrained(weights)
    getattr(model, "tupe", model).freeze_positions()
    with pytest.raises(ValueError, match=r"^frozen positions have no parameters to save: save the model before freeze"):
        model.save_pretrained(tmp_path)
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(
        OSError, match=rf"^the weights \(\*\.safetensors\) in {tmp_path} are damaged or cut \(.+\): copy"
    ):
        getattr(ours, auto).from_pretrained(tmp_path)


def test_the_shipped_copy_of_the_choices():
    assert CHOICES.items() >= configuration_tupe.CHOICES.items()
    assert all(set(choices) <= systems.CHOICES[field].keys() for field, choices in configuration_tupe.CHOICES.items())
