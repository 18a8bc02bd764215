"""Windows with their targets, the loss, and the answers of validation."""

import math

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from omegaconf import OmegaConf

from tests.criterions.test_sentence_prediction import log_round
from tests.data.conftest import LINES, squad, write_corpus, write_json
from tupe.cli.main import main
from tupe.criterions import TupeQuestionAnsweringCriterion
from tupe.data.questions import score
from tupe.data.scores import scores, tokens
from tupe.data.windows import Span
from tupe.finetune.predict import answers
from tupe.models import TupeModel
from tupe.models.config import named
from tupe.tasks.question_answering import TupeQuestionAnsweringConfig, TupeQuestionAnsweringTask

NAMES = ["Anna", "house", "river", "sea", "city", "water", "stone", "forest", "old king", "Bob"]
DEEDS = ["stands", "sleeps", "waits"]
PLACES = ["in New York", "by the sea", "near the river", "behind the forest", "on the stone", "under water"]
FIELDS = {"encoder_layers": 2, "encoder_embed_dim": 64, "encoder_ffn_embed_dim": 128, "encoder_attention_heads": 4}
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}


def made_questions(number):
    """Four questions a context."""
    random, paragraphs = np.random.default_rng(0), []
    for i in range(number // 4):
        answers = [random.choice(NAMES), random.choice(DEEDS), random.choice(PLACES), str(1800 + i)]
        questions = ["Who is there?", "What is done?", "Where is it?", "Since when?"]
        context = "The {} {} {} since {}.".format(*answers)
        paragraphs.append((context, [(f"{i}-{q}", q, a) for q, a in zip(questions, answers)]))
    return squad(*paragraphs)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """100 questions to train on, the same to validate on, and some in other scripts."""
    folder = tmp_path_factory.mktemp("qa")
    made = made_questions(100)
    texts = [text for p in made["data"][0]["paragraphs"] for text in (p["context"], *(q["question"] for q in p["qas"]))]
    corpus = write_corpus(folder / "corpus", [*texts, LINES["zh"]], 90)
    path = write_json(folder / "made.json", made)
    chinese = write_json(folder / "zh.json", squad((LINES["zh"] * 3, [("a", "哪里？", "城市的河边")])))
    files = [f"train={path}", f"valid={path}", f"test-zh={chinese}"]
    assert main(["prepare-qa", *files, str(corpus), str(folder / "data"), "--workers", "1"]) == 0
    return folder / "data"


def make_task(folder, **fields):
    settings = {"max_positions": 48, "max_query": 8, "doc_stride": 16, "seed": 1, "data": str(folder), **fields}
    return TupeQuestionAnsweringTask.setup_task(OmegaConf.structured(TupeQuestionAnsweringConfig(**settings)))


def make_model(task):
    torch.manual_seed(1)
    model = TupeModel.build_model(named("tupe_tiny", **FIELDS, **NO_DROPOUT), task)
    model.register_span_head()
    return model


def batches(dataset, size=16):
    for batch in dataset.batch_by_size(dataset.ordered_indices(), max_sentences=size):
        yield dataset.collater([dataset[index] for index in batch])


@pytest.mark.parametrize(("max_positions", "separators"), [(20, 2), (48, 2), (20, 1)])
def test_windows_hold_question_context_and_answer(data, max_positions, separators):
    fields = {"max_positions": max_positions, "max_query": 6, "doc_stride": 5}
    task, dropping = make_task(data, **fields), make_task(data, **fields, windows_without_answer="drop")
    for one in (task, dropping):
        one.build_model(OmegaConf.structured(named("tupe_tiny", **FIELDS, pair_separators=separators)))
    dataset, valid, eos, whole = task.load_dataset("train"), task.load_dataset("valid"), task.source_dictionary.eos(), 0
    for index in range(len(dataset)):
        source, target = dataset[index]["source"].tolist(), dataset[index]["target"]
        assert len(source) == dataset.size(index) <= max_positions
        assert source[0] == task.source_dictionary.bos() and source[-1] == eos
        middle = source.index(eos)
        assert source[middle : middle + separators] == [eos] * separators and source.count(eos) == separators + 1
        assert middle - 1 <= 6 and valid[index]["context"] == (middle + separators, len(source) - 1)
        if target.any():
            whole += 1
            assert target[1] < len(source) - 1
            answer = dataset.question_of(index)["answers"][0]["text"]
            assert scores(dataset.text(index, *target), [answer], dataset.tokens) == (True, 1.0), answer
    assert whole > 80 and (max_positions == 48 or dataset.sizes.max() == 20)  # some are longer than a window
    assert len(dropping.load_dataset("train")) == whole
    orders = [make_task(data, seed=seed).load_dataset("train").ordered_indices().tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_every_piece_may_begin_in_one_window(data):
    task = make_task(data, max_positions=20, max_query=6, doc_stride=5)
    dataset = task.load_dataset("valid")
    seen = {}
    for sample in batches(dataset):
        for row, window in enumerate(sample["id"].tolist()):
            question = int(dataset.number[dataset._example[window]])
            assert (sample["may_begin"][row] <= sample["may_end"][row]).all()
            start = int(dataset._start[window]) - dataset._begin(window)
            seen.setdefault(question, []).extend((sample["may_begin"][row].nonzero().flatten() + start).tolist())
    spans = {window: Span(0.5, *2 * [dataset[window]["context"][0]]) for window in range(len(dataset))}
    wanted = {dataset.question_of(w)["id"]: dataset.text(w, *spans[w][1:]) for w in reversed(spans)}
    assert dataset.answers(spans) == wanted  # of equal spans, that of the first window
    for number, pieces in seen.items():
        begin, end = (side[dataset._place[number]] for side in (dataset._begins, dataset._ends))
        assert sorted(pieces) == (begin < end).nonzero().flatten().tolist()


def validated(task, criterion, model, dataset, workers, size):
    """Exact match and F1 as fairseq's validation has them, on several workers that take turns."""
    samples = list(batches(dataset, size))
    with metrics.aggregate(new_root=True) as meters, torch.no_grad():
        for start in range(0, len(samples), workers):
            log_round(criterion, [criterion(model, part)[2] for part in samples[start : start + workers]], task)
    values = meters.get_smoothed_values()
    return {name: values[name] for name in ("exact_match", "f1")}


def test_the_scores_depend_on_no_split(data):
    task = make_task(data, max_positions=24, max_query=8, doc_stride=6)
    model, criterion = make_model(task).eval(), TupeQuestionAnsweringCriterion(task).eval()
    for weight in model.parameters():  # as initialized, it would say nearly the same of every question
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    dataset = task.load_dataset("valid")
    found = [validated(task, criterion, model, dataset, workers, size) for workers, size in ((1, 400), (1, 7), (3, 16))]
    assert found[0] == found[1] == found[2]
    predictions = answers(model, dataset, 30)
    assert found[0] == pytest.approx(score(dataset.paragraphs, predictions, tokens("squad", "en")))
    assert 0 < found[0]["f1"] < 100


def test_the_loss_is_the_mean_of_two_cross_entropies(data):
    task = make_task(data)
    dataset, criterion = task.load_dataset("train"), TupeQuestionAnsweringCriterion(task)
    sample = dataset.collater([dataset[dataset.sizes.argmin()], dataset[dataset.sizes.argmax()]])
    width = sample["net_input"]["src_tokens"].shape[1]
    begin, end = torch.randn(2, 2, width)
    padding = sample["net_input"]["src_tokens"] == task.source_dictionary.pad()
    loss, size, log = criterion(lambda **_: ((begin, end), {}), sample)
    expected = 0.0
    for row in range(2):
        for side, place in ((begin, 0), (end, 1)):
            inside = side[row][~padding[row]]
            expected += float(torch.logsumexp(inside, 0) - inside[sample["target"][row, place]]) / 2
    assert size == 2 and loss.item() == pytest.approx(expected, rel=1e-5)
    with metrics.aggregate(new_root=True) as meters:
        task.reduce_metrics([log], criterion)
    assert meters.get_smoothed_value("loss") == round(expected / 2 / math.log(2), 3)
