"""Every system is its equation in float64: logits, features and the gradient of each parameter (`equations.py`)."""

import pytest
import torch

from tests.contract.aliases import build
from tests.contract.equations import Names, activation, encoder, translator, words
from tests.contract.fixtures.cases import CASES, LATER, MODERN, SMALL, STACKS, SYSTEMS, TRANSLATIONS, TRANSLATORS
from tests.contract.fixtures.data import PAD, sentences


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
    weight = torch.randn(found.shape, dtype=found.dtype, generator=torch.Generator().manual_seed(2))
    for result in (expected, found):
        (result * weight / found.numel() ** 0.5).sum().backward()
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for parameter, shared in names.items():
        zero = torch.zeros_like(parameter)
        own = sum((weights[name].grad for name in shared if name in weights and weights[name].grad is not None), zero)
        got = zero if parameter.grad is None else parameter.grad
        torch.testing.assert_close(got, own, rtol=1e-7, atol=given, msg=lambda text, shared=shared: f"{shared}: {text}")


ENCODERS = [
    *((name, {}) for name in [*CASES, *MODERN]),
    # without padding
    *((name, {"lengths": (13, 2, 8, 7), "unpad": "always"})
      for name in ("tupe_r", "diet_rel", "shaw", "rope", "linformer", "deberta", "bert_ad", *MODERN)),
    # farther than the last bucket begins
    *((name, {"lengths": (150, 70), "positions": 160}) for name in ("tupe_r", "fire", "kerple", "rope", "shaw")),
    *((name, {"attention_backend": backend})
      for name in ("tupe_r", "diet_abs", "tupe_r in a window", "bert_ad", "tupe_a_rope in ModernBERT's block")
      for backend in ("reference", "sdpa")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "more"), ENCODERS)
def test_encoder(name, more):
    (system, fields), more = {**CASES, **MODERN}[name], {"lengths": (13, 8, 2), "positions": 24, **more}
    spec = {**{**SYSTEMS, **LATER}[system], **fields}
    tokens = sentences(*more.pop("lengths"), separators=spec.get("pair_separators", 2))
    model = large(build(f"{system}_tiny", **SMALL, **fields, **more))
    kept, stack, head = tokens != PAD, "encoder.sentence_encoder.", "encoder.lm_head."
    table = f"{head}weight" if "untie_weights_roberta" in fields else f"{stack}embed_tokens.weight"

    def equation(weights):
        features = encoder(Names(weights, stack), spec, tokens)[kept]
        return words(Names(weights, head), weights[table], spec, features)

    agree(model, 1e-10, equation, lambda: model(tokens, pairs=spec.get("pair_separators", 2) == 2)[0][kept])


#: What the generator shares with the discriminator, by `share_positions`.
TABLE = ["position_bias.absolute.table.", "position_bias.absolute.layer_norm.", "position_bias.reset.vectors"]
SHARED = {"none": [], "table": TABLE, "all": ["position_bias.", "segment_attention."]}


@pytest.mark.parametrize(
    "system,share", [("tupe_r", share) for share in SHARED] + [("diet_rel", "none"), ("diet_rel", "all")]
)
def test_electra(system, share):
    """Both networks: the words of the generator and the scores of the discriminator."""
    size, heads = (1.0, 3) if share == "all" else (2 / 3, 2)
    model = large(build(f"electra_{system}_tiny", **SMALL, share_positions=share, generator_size=size))
    tokens, spec, ours = sentences(13, 8, 2), SYSTEMS[system], "encoder.sentence_encoder."
    kept = tokens != PAD
    both = ["embed_tokens.", "input_positions.", "input_segments.", "layernorm_embedding.", *SHARED[share]]

    def equation(weights):
        head = Names(weights, "discriminator_head.")
        x = encoder(Names(weights, ours), spec, tokens)[kept]
        scores = head.linear("out_proj", activation("gelu", head.linear("dense", x)))
        narrow = Names(weights, "generator.sentence_encoder.", [(name, ours) for name in both])
        features = encoder(narrow, {**spec, "heads": heads}, tokens)[kept]
        logits = words(Names(weights, "generator.lm_head."), weights[f"{ours}embed_tokens.weight"], spec, features)
        return torch.cat((scores, logits), -1)

    def compute():
        scores = model.discriminator_head(model(tokens, features_only=True)[0][kept])
        return torch.cat((scores[:, None], model(tokens)[0][kept]), -1)

    agree(model, 1e-10, equation, compute)


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translator(name):
    system, fields = TRANSLATIONS[name]
    model, spec = large(build(f"seq2seq_{system}_tiny", 20, **STACKS, **fields)), {**TRANSLATORS[system], **fields}
    source, previous = sentences(9, 6, 2), sentences(18, 18, 18).roll(1, 1)
    accuracy = 2e-6 if system == "sinusoidal" else 1e-10  # of fairseq's float32 sinusoids
    agree(model, accuracy, lambda w: translator(w, spec, source, previous), lambda: model(source, None, previous)[0])
