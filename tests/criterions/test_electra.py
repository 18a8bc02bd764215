"""Replaced-token detection against an evaluation of its equations in float64, loop by loop."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.samples import WORDS, dictionary_of
from tupe.criterions import TupeElectraCriterion
from tupe.criterions.electra import BINS, TupeElectraCriterionConfig, histogram
from tupe.criterions.metrics import area_under_curve, detection
from tupe.models import ElectraModel
from tupe.models.config import named
from tupe.models.summary import training_flops

BOS, PAD, EOS = 0, 1, 2
RATE, SEED = 0.15, 3


@pytest.fixture(scope="module")
def task():
    dictionary = dictionary_of(*WORDS, "<mask>")
    cfg = SimpleNamespace(mask_prob=RATE, seed=SEED)
    return SimpleNamespace(
        source_dictionary=dictionary, target_dictionary=dictionary, max_positions=lambda: 32, cfg=cfg
    )


@pytest.fixture(scope="module", params=["electra_tupe_r_tiny", "electra_bert_a_tiny"])
def model(task, request):
    return build(task, request.param)


def build(task, name="electra_tupe_r_tiny", **fields):
    torch.manual_seed(0)
    small = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 2}
    model = ElectraModel.build_model(named(name, **{**small, "dropout": 0.0, "attention_dropout": 0.0, **fields}), task)
    for parameter in model.parameters():
        if parameter.ndim > 1:  # far from the tiny initial values
            nn.init.normal_(parameter, std=0.3)
    return model


def criterion(task, training=True, **fields):
    return TupeElectraCriterion(TupeElectraCriterionConfig(**fields), task).train(training)


def words_of(target):
    """Where words are masked, not `<s>` and `</s>`."""
    return {"masked_words": (target.ne(PAD) & target.ne(BOS) & target.ne(EOS)).flatten().nonzero().flatten()}


def rows(task, lengths, masked, first=0):
    """A batch; `masked` has (row, position, whether the word stays in the input)."""
    tokens = torch.randint(4, 24, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(first + 5))
    tokens[:, 0] = BOS
    for row, length in zip(tokens, lengths):
        row[length - 1], row[length:] = EOS, PAD
    source, target = tokens.clone(), torch.full_like(tokens, PAD)
    for row, position, stays in masked:
        target[row, position] = tokens[row, position]
        if not stays:
            source[row, position] = task.source_dictionary.index("<mask>")
    return {
        **words_of(target),
        "id": torch.arange(len(lengths)) + 100 + first,
        "ids": [*range(100 + first, 100 + first + len(lengths))],
        "net_input": {"src_tokens": source, "src_lengths": torch.tensor(lengths)},
        "target": target,
        "ntokens": sum(lengths),
        "nsentences": len(lengths),
    }


#: `<s>` of the first row and `</s>` of the second are masked too, as fairseq's task does it.
MASKED = [(0, 0, False), (0, 3, False), (0, 5, True), (1, 2, False), (1, 5, False), (2, 1, False), (3, 4, True)]
LENGTHS = [9, 6, 4, 7]


@pytest.fixture
def sample(task):
    return rows(task, LENGTHS, MASKED)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def independent(model, sample, update, weight=50.0, temperature=1.0):
    """The loss, `M` and `N` as the equations say, one position at a time."""
    source, target = sample["net_input"]["src_tokens"].clone(), sample["target"]
    original = source.clone()
    positions = []
    for row, column in (target != PAD).nonzero().tolist():
        original[row, column] = target[row, column]
        if int(target[row, column]) in (BOS, EOS):
            source[row, column] = target[row, column]
        else:
            positions.append((row, column))
    everywhere = model.generator(source)[0]  # (B, T, V)
    language, corrupted = 0.0, original.clone()
    for row, column in positions:
        logits = everywhere[row, column]
        language = language - logits[original[row, column]] + logits.exp().sum().log()
        shares = (logits.detach().double() / temperature).exp().numpy()
        shares[[0, 1, 2, 3, 24]] = 0
        uniform = np.random.default_rng((SEED, update, int(sample["id"][row]))).random(column + 1, np.float32)[column]
        corrupted[row, column] = int(np.searchsorted(np.cumsum(shares / shares.sum()), uniform, side="right"))
    scores = model.discriminator_head(model.encoder(corrupted, features_only=True)[0])
    decision, count = 0.0, 0
    for row, column in (original != PAD).nonzero().tolist():
        replaced = float(corrupted[row, column] != original[row, column])
        called = 1 / (1 + (-scores[row, column]).exp())
        decision = decision - replaced * called.log() - (1 - replaced) * (1 - called).log()
        count += 1
    return weight * decision + language / RATE, len(positions), count


@pytest.mark.parametrize(
    "fields", [{}, {"discriminator_weight": 3.0, "sampling_temperature": 0.7}, {"discriminator_weight": 0.0}]
)
def test_loss_and_gradients_are_those_of_the_equations(task, model, sample, fields):
    exact = copy.deepcopy(model).double().train()
    exact.set_num_updates(6)
    wanted, masked, tokens = independent(
        exact, sample, 7, fields.get("discriminator_weight", 50.0), fields.get("sampling_temperature", 1.0)
    )
    expected = gradients(exact, wanted)
    assert (masked, tokens) == (5, 26)
    for network, tolerance in ((copy.deepcopy(exact), 1e-6), (copy.deepcopy(model).train(), 2e-4)):
        network.set_num_updates(6)
        loss, sample_size, log = criterion(task, **fields)(network, sample)
        assert (sample_size, log["masked"], log["ntokens"]) == (tokens, masked, tokens)
        torch.testing.assert_close(loss.double(), wanted, rtol=tolerance, atol=0)
        found = gradients(network, loss)
        assert found.keys() >= expected.keys()
        for name, gradient in expected.items():
            scale = gradient.abs().max().item() + 1e-3
            torch.testing.assert_close(found[name].double(), gradient, rtol=0, atol=tolerance * scale, msg=name)


class Fake(nn.Module):
    """Says what it was given to say."""

    discriminator_head, num_updates = True, 0

    def __init__(self, logits, tokens, scores):
        super().__init__()
        self.said = SimpleNamespace(logits=logits, tokens=tokens, scores=scores)

    def forward(self, src_tokens, **given):
        self.given = {"src_tokens": src_tokens, **given}
        return self.said


def logged(*logs):
    with metrics.aggregate(new_root=True) as meters:
        TupeElectraCriterion.reduce_metrics(list(logs))
    return meters.get_smoothed_values()


def test_labels_and_counts_by_hand(task):
    sample = rows(task, [8, 5], [(0, 2, False), (0, 3, True), (0, 7, False), (1, 1, False), (1, 2, False)])
    original = torch.where(sample["target"].ne(PAD), sample["target"], sample["net_input"]["src_tokens"])
    tokens = original.clone()
    tokens[0, 2] = (tokens[0, 2] - 3) % 20 + 4  # another word: replaced
    tokens[0, 3] = (tokens[0, 3] - 3) % 20 + 4  # it was left in the input: still replaced
    tokens[1, 1] = (tokens[1, 1] - 3) % 20 + 4
    # (1, 2) is drawn as it had been: original
    scores = torch.full((2, 8), -1.0)
    scores[0, 2], scores[1, 1], scores[1, 2] = 2.0, 3.0, 1.0
    logits = torch.zeros(4, 25)
    logits[0, original[0, 2]] = logits[3, original[1, 2]] = 1.0  # the likeliest word of two of four is right
    fake = Fake(logits, tokens, scores)
    found = logged(criterion(task, training=False)(fake, sample)[2])
    given = fake.given
    assert given["masked_tokens"].tolist() == [2, 3, 9, 10]
    assert torch.equal(given["original"], original)
    assert given["src_tokens"][0, 7] == EOS  # its mask was taken away
    assert given["num_tokens"] == 13
    n = 13
    sigmoid = [2.0, 3.0, 1.0] + [-1.0] * 10
    replaced = [1, 1, 0, 1] + [0] * 9
    bits = -sum(math.log2(1 / (1 + math.exp(-z if y else z))) for z, y in zip(sigmoid, replaced)) / n
    language = (2 * (math.log(24 + math.e) - 1) + 2 * math.log(25)) / math.log(2)
    assert found["disc_loss"] == pytest.approx(bits, abs=1e-4)
    assert found["gen_loss"] == pytest.approx(language / 4, abs=1e-3)
    assert found["loss"] == pytest.approx(50 * bits + language / RATE / n, abs=5e-3)
    for name, value in {
        "replaced_share": 3 / n, "disc_accuracy": 11 / n, "disc_recall": 2 / 3, "disc_specificity": 9 / 10,
        "disc_precision": 2 / 3, "gen_accuracy": 2 / 4, "sampled_accuracy": 1 / 4, "masked_share": 4 / (RATE * n),
        # pairs with the 6 words that are original: 2 replaced are above all of them, one is beside five and below one
        "disc_auc": (12 + 5 / 2) / 18,
    }.items():  # fmt: skip
        assert found[name] == pytest.approx(100 * value, abs=0.06), name


@pytest.mark.parametrize("lengths", [(1, 1, 1, 1), (2, 2), (1, 3)])
def test_one_gradient_however_an_update_is_split(task, model, sample, lengths):
    """4 x 1, 2 x 2 and others, of rows of unequal lengths, by fairseq's rule: gradients summed, over the sum of `N`."""
    network = copy.deepcopy(model).double().train()
    network.set_num_updates(11)
    ours = criterion(task)
    loss, size, log = ours(network, sample)
    whole = {name: gradient / size for name, gradient in gradients(network, loss).items()}
    total, sizes, logs, start = {}, 0, [], 0
    for count in lengths:
        part = slice(start, start + count)
        longest = max(LENGTHS[part])
        split = {
            **words_of(sample["target"][part, :longest]),
            "ids": sample["ids"][part],
            "net_input": {"src_tokens": sample["net_input"]["src_tokens"][part, :longest]},
            "target": sample["target"][part, :longest],
            "ntokens": sum(LENGTHS[part]),
            "nsentences": count,
        }
        loss, size, log_of_part = ours(network, split)
        for name, gradient in gradients(network, loss).items():
            total[name] = total.get(name, 0) + gradient
        sizes, start = sizes + size, start + count
        logs.append(log_of_part)
    assert sizes == 26
    for name, gradient in whole.items():
        scale = gradient.abs().max().item() + 1e-3  # the losses are of float32
        torch.testing.assert_close(total[name] / sizes, gradient, rtol=0, atol=1e-6 * scale, msg=name)
    one, many = (logged(*some) for some in ([log], logs))
    assert one == pytest.approx(many, abs=1e-3)


def test_validation_repeats_itself_and_training_does_not(task, sample):
    model = build(task, dropout=0.1).eval()
    ours = criterion(task, training=False)
    state = torch.get_rng_state()
    first = ours(model, sample)[0]
    model.set_num_updates(40)
    assert torch.equal(ours(model, sample)[0], first)
    training = criterion(task)
    numbers = []
    for update in (0, 1, 0):
        model.set_num_updates(update)
        numbers.append(training.uniform(model, [1, 2], 8))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(numbers[0], numbers[2])
    assert not torch.equal(numbers[0], numbers[1])
    assert not torch.equal(numbers[0][0], numbers[0][1])
    model.set_num_updates(0)
    assert torch.equal(training.uniform(model, [2], 5)[0], numbers[0][1, :5])  # whoever is beside it, however long


def test_the_head_starts_as_electras(task):
    weight = ElectraModel.build_model(named("electra_tupe_tiny"), task).discriminator_head.out_proj.weight
    bound = (6 / (weight.numel() + 1)) ** 0.5  # Xavier's
    assert 0.8 * bound < weight.abs().max() <= bound


def test_area_under_the_curve_of_histograms():
    generator = torch.Generator().manual_seed(1)
    replaced = torch.rand(50, 100, generator=generator) < 0.1
    scores = torch.randn(50, 100, generator=generator) + 1.5 * replaced - 1
    kind = replaced.long().masked_fill(torch.rand(50, 100, generator=generator) < 0.05, 2)
    counts = histogram(scores, kind, torch.ones_like(replaced)).tolist()
    positive, negative = scores[kind == 1], scores[kind == 0]
    exact = (positive[:, None] > negative[None]).double().mean().item()
    assert area_under_curve(counts) == pytest.approx(exact, abs=0.005)
    assert detection(counts)["disc_recall"] == pytest.approx((positive > 0).double().mean().item())
    assert area_under_curve([[0] * BINS, [1] * BINS, [1] * BINS]) == 0
    edge = histogram(
        torch.tensor([[0.0, 1e-9, -1e-9, 100.0, -100.0]]), torch.zeros(1, 5).long(), torch.ones(1, 5).bool()
    )
    half = BINS // 2
    assert edge[0].nonzero().flatten().tolist() == [0, half - 1, half, BINS - 1]
    assert edge[0, half - 1] == 2


@pytest.mark.parametrize("system", ["bert_a", "shaw"])
def test_operations_are_those_that_pytorch_counts(system, task):
    model = build(task, f"electra_{system}_tiny", embedding_dim=8, attention_backend="reference")
    sample = rows(task, [32] * 4, [(r, p, False) for r in range(4) for p in range(1, 6)])
    counter = FlopCounterMode(display=False)
    with counter, torch.backends.mkldnn.flags(enabled=False):
        criterion(task)(model, sample)[0].backward()
    assert training_flops(model, 128, 32, 20) == pytest.approx(counter.get_total_flops(), rel=0.01)
