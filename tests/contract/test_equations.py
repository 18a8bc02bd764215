"""Every system is its equation in float64: logits, features and the gradient of each parameter (`equations.py`)."""

import pytest
import torch

from tests.contract.aliases import UNPADDED, build
from tests.contract.data import PAD, sentences
from tests.contract.equations import SYSTEMS, TRANSLATORS, Names, encoder, translator, words

SMALL = {"encoder_layers": 2, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 3}
STACKS = {**SMALL, "decoder_layers": 3, "position_rank": 5, "share_all_embeddings": True}
FAR = {"relative_max_distance": 4}
TWO = {"deberta": {"relative_buckets": 0, **FAR}, "shaw": FAR, "linformer": {"linformer_k": 5},
       "diet_abs_lin": {"linformer_k": 5}}  # fmt: skip

#: case -> system, other fields of the model, and what they change in the equation where it is called otherwise there.
CASES = {
    **{name: (name, TWO.get(name, {}), {"far": 4} if TWO.get(name, {}).get("relative_max_distance") else {})
       for name in SYSTEMS},
    "release": ("tupe_r", {"reset": "release", "untied_projection_bias": True}, {"reset": "release"}),
    "bert_r, reset": ("bert_r", {"reset": "paper"}, {"reset": True}),
    "diet_rel, reset": ("diet_rel", {"reset": "paper"}, {"reset": True}),
    "diet_rel by layers": ("diet_rel", {"sharing": "layer"}, {}),
    "diet_rel by heads": ("diet_rel", {"sharing": "head"}, {}),
    "no untied norm": ("tupe_a", {"no_untied_layer_norm": True}, {}),
    "bert_a at TUPE's scale": ("bert_a", {"content_terms": 2}, {}),
    "diet_abs, not shared": ("diet_abs", {"sharing": "none"}, {}),
    "diet_abs by heads, reset": ("diet_abs", {"sharing": "head", "reset": "paper"}, {"reset": True}),
    "diet_abs and a table": ("diet_abs", {"absolute": "low_rank_input"}, {}),
    "diet_abs_lin, not shared": ("diet_abs_lin", {"sharing": "none", "linformer_k": 5}, {}),
    "tupe_r, not shared": ("tupe_r", {"sharing": "none"}, {}),
    "tupe_r by heads": ("tupe_r", {"sharing": "head"}, {}),
    "tupe_r with segments": ("tupe_r", {"segment": "per_head"}, {}),
    "one separator": ("tupe_r", {"segment": "per_head", "pair_separators": 1}, {"separators": 1}),
    "tupe_r in a window": ("tupe_r", {"attention_window": 3}, {"window": 3}),
    "tupe_r, pre-norm": ("tupe_r", {"encoder_normalize_before": True, "layer_norm_eps": 1e-3},
                         {"pre_norm": True, "eps": 1e-3}),
    "tupe_r, factorised": ("tupe_r", {"embedding_dim": 8, "untie_weights_roberta": True}, {"untied_output": True}),
    "bert_ad, not shared": ("bert_ad", {"sharing": "none"}, {}),
    "bert_ad with rope": ("bert_ad", {"rotary_dims": -1}, {"rotary": 8}),
    "free": ("tupe_a", {"absolute": "free"}, {}),
    "parametric": ("tupe_r", {"relative": "parametric", **FAR}, {"far": 4}),
    "parametric, not shared": ("t5", {"relative": "parametric", "sharing": "none", **FAR}, {"far": 4}),
    "clipped": ("tupe_r", {"relative": "clipped", **FAR}, {"far": 4}),
    "shaw with values": ("shaw", {"shaw_values": True, "absolute": "low_rank", "segment": "per_head", **FAR},
                         {"far": 4}),
    "deberta in buckets": ("deberta", {"relative_buckets": 6, "relative_max_distance": 9},
                           {"buckets": [0, 1, 2, 3, 4, 5, 5, 5, 5, 6]}),
    "deberta beside tupe_a": ("tupe_a", {"relative": "deberta", **TWO["deberta"]}, {}),
    "alibi by layers beside tupe_a": ("tupe_a", {"relative": "alibi", "sharing": "none",
                                                  "relative_sides": "symmetric"}, {}),
    "alibi_learned, not shared": ("alibi_learned", {"sharing": "none"}, {}),
    "kerple by heads, reset": ("kerple", {"sharing": "head", "reset": "paper"}, {"reset": True}),
    "fire by heads, beyond its end": ("fire", {"sharing": "head", "fire_length": 5.0, "fire_width": 7}, {}),
    "rope of half the columns": ("rope", {"rotary_dims": 4, "rotary_base": 50.0}, {"rotary": 4}),
    "rope and T5, reset": ("rope", {"relative": "bucketed", "reset": "paper"}, {"reset": True}),
    "relu": ("bert_a", {"activation_fn": "relu"}, {"activation": "relu"}),
}  # fmt: skip
CALLED = ("absolute", "relative", "sharing", "segment", "rotary_base", "content_terms")
TRANSLATIONS = {
    **{name: (name, {}, {}) for name in TRANSLATORS},
    "shaw": ("shaw", {"relative_max_distance": 3}, {"far": 3}),
    **{f"{name} with {cross}": (name, {"cross_position": cross}, {"cross": cross}) for name, cross in [
        ("sinusoidal", "diagonal"), ("tupe_r", "untied"), ("diet_rel", "untied"), ("diet_abs", "low_rank")]},
    "tupe_r, not shared, pre-norm": ("tupe_r", {"sharing": "none", "encoder_normalize_before": True},
                                     {"pre_norm": True}),
    "t5 by heads": ("t5", {"sharing": "head"}, {}),
    "shaw of keys": ("shaw", {"shaw_values": False, "absolute": "low_rank", "relative_max_distance": 3}, {"far": 3}),
    "untied across": ("diet_rel", {"cross_position": "untied", "untied_projection_bias": True,
                                   "no_untied_layer_norm": True}, {"cross": "untied"}),
    "alibi": ("none", {"relative": "alibi"}, {}),
    "alibi learned": ("none", {"relative": "alibi", "relative_sides": "learned", "sharing": "none"}, {}),
    "kerple": ("none", {"relative": "kerple"}, {}),
    "half of rope, and T5": ("t5", {"rotary_dims": 4}, {"rotary": 4}),
    "fire and untied": ("tupe_a", {"relative": "fire"}, {}),
    "clipped": ("none", {"relative": "clipped", "relative_max_distance": 3}, {"far": 3}),
}  # fmt: skip


def case(systems, cases, name):
    system, fields, changed = cases[name]
    return system, fields, {**systems[system], **{key: fields[key] for key in CALLED if key in fields}, **changed}


def large(model):
    """Parameters so large that a wrong term shows, in float64."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 or "norm" in name:
            torch.nn.init.normal_(parameter, std=0.3)
        if "norm" in name and name.endswith("weight"):
            parameter.data += 1
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    return model.double()


def agree(model, given, equation, compute):
    """`compute()` is `equation(weights)`, and so is its gradient for each parameter of `model`."""
    weights = {name: t.detach().clone().requires_grad_() for name, t in model.state_dict().items()}
    expected, found = equation(weights), compute()
    assert expected.dtype == found.dtype == torch.float64 and expected.std() > 0.05
    torch.testing.assert_close(found, expected, rtol=given, atol=given)
    weight = (
        torch.randn(found.shape, dtype=found.dtype, generator=torch.Generator().manual_seed(2)) / found.numel() ** 0.5
    )
    (expected * weight).sum().backward()
    (found * weight).sum().backward()
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for parameter, shared in names.items():
        zero = torch.zeros_like(parameter)
        own = sum((weights[name].grad for name in shared if name in weights and weights[name].grad is not None), zero)
        got = zero if parameter.grad is None else parameter.grad
        torch.testing.assert_close(got, own, rtol=1e-7, atol=given, msg=lambda text, shared=shared: f"{shared}: {text}")


def check(name, lengths=(13, 8, 2), positions=24, **more):
    system, fields, spec = case(SYSTEMS, CASES, name)
    model = large(build(f"{system}_tiny", positions, **{**SMALL, **fields, **more}))
    tokens = sentences(*lengths)

    def equation(weights):
        features = encoder(Names(weights, "encoder.sentence_encoder."), spec, tokens)[tokens != PAD]
        table = (
            "encoder.lm_head.weight" if spec.get("untied_output") else "encoder.sentence_encoder.embed_tokens.weight"
        )
        return words(Names(weights, "encoder.lm_head."), weights[table], spec, features)

    agree(model, 1e-10, equation, lambda: model(tokens)[0][tokens != PAD])


@pytest.mark.parametrize("name", CASES)
def test_encoder(name):
    check(name)


@pytest.mark.parametrize("name", ["tupe_r", "diet_rel", "shaw", "rope", "linformer", "deberta", "bert_ad"])
def test_encoder_without_padding(name):
    check(name, lengths=(13, 2, 8, 7), **UNPADDED)


@pytest.mark.parametrize("name", ["tupe_r", "fire", "kerple", "rope", "shaw"])
def test_encoder_of_long_sequences(name):
    """Farther than the last bucket begins."""
    check(name, lengths=(150, 70), positions=160)


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("name", ["tupe_r", "diet_abs", "tupe_r in a window", "bert_ad"])
def test_encoder_by_backend(name, backend):
    check(name, attention_backend=backend)


@pytest.mark.parametrize(
    "system,share", [("tupe_r", "table"), *((name, how) for name in ("tupe_r", "diet_rel") for how in ("none", "all"))]
)
def test_electra(system, share):
    """Both networks: the words of the generator and the scores of the discriminator."""
    size = {"share_positions": share, "generator_size": 1.0 if share == "all" else 2 / 3}
    model, tokens, spec = large(build(f"electra_{system}_tiny", **SMALL, **size)), sentences(13, 8, 2), SYSTEMS[system]
    kept, ours = tokens != PAD, "encoder.sentence_encoder."
    both = ["embed_tokens.", "input_positions.", "input_segments.", "layernorm_embedding."]
    if share == "table":
        both += [f"position_bias.{part}" for part in ("absolute.table.", "absolute.layer_norm.", "reset.vectors")]
    if share == "all":
        both += ["position_bias.", "segment_attention."]

    def equation(weights):
        head = Names(weights, "discriminator_head.")
        x = encoder(Names(weights, ours), spec, tokens)[kept]
        x = head.linear("dense", x)
        scores = head.linear("out_proj", x * (1 + torch.erf(x / 2**0.5)) / 2)
        narrow = {**spec, "heads": 3 if share == "all" else 2}
        found = encoder(Names(weights, "generator.sentence_encoder.", [(name, ours) for name in both]), narrow, tokens)
        logits = words(Names(weights, "generator.lm_head."), weights[f"{ours}embed_tokens.weight"], spec, found[kept])
        return torch.cat((scores, logits), -1)

    def compute():
        scores = model.discriminator_head(model(tokens, features_only=True)[0][kept])
        return torch.cat((scores[:, None], model(tokens)[0][kept]), -1)

    agree(model, 1e-10, equation, compute)


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translator(name):
    system, fields, spec = case(TRANSLATORS, TRANSLATIONS, name)
    model = large(build(f"seq2seq_{system}_tiny", 20, **{**STACKS, **fields}))
    source, previous = sentences(9, 6, 2), sentences(18, 18, 18).roll(1, 1)
    accuracy = 2e-6 if system == "sinusoidal" else 1e-10  # of fairseq's float32 sinusoids
    agree(model, accuracy, lambda w: translator(w, spec, source, previous), lambda: model(source, None, previous)[0])
