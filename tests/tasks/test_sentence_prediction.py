"""The task on folders as fairseq-preprocess writes them."""

import json

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import make_builder
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.samples import dictionary_of
from tupe.models.config import named
from tupe.tasks.sentence_prediction import (
    JoinedSentences,
    TupeSentencePredictionConfig,
    TupeSentencePredictionTask,
    share,
)

BOS, EOS = 0, 2


class Sentences(list):
    """Examples as fairseq reads them: words and a final `</s>`, and their sizes."""

    def __init__(self, sentences):
        super().__init__(torch.tensor([*words, EOS]) for words in sentences)
        self.sizes = np.array([len(item) for item in self])


def words():
    return st.lists(st.integers(4, 99), max_size=12)


def is_start(kept, sentence):
    return kept == sentence[: len(kept)]


@given(st.lists(st.tuples(words(), words()), min_size=1, max_size=4), st.integers(6, 30))
def test_pairs_are_cut_to_the_limit_and_both_stay(pairs, max_positions):
    first, second = zip(*pairs)
    joined = JoinedSentences([Sentences(first), Sentences(second)], [BOS, EOS], max_positions)
    for index, (a, b) in enumerate(pairs):
        tokens = joined[index].tolist()
        assert len(tokens) == joined.sizes[index] == joined.size(index) == joined.num_tokens(index)
        assert len(tokens) == min(len(a) + len(b) + 4, max_positions)
        middle = tokens.index(EOS)
        kept_a, kept_b = tokens[1:middle], tokens[middle + 2 : -1]
        assert tokens == [BOS, *kept_a, EOS, EOS, *kept_b, EOS]
        assert is_start(kept_a, a) and is_start(kept_b, b)
        assert bool(kept_a) == bool(a) and bool(kept_b) == bool(b)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 60))
def test_the_longer_sentence_loses_its_words_first(first, second, room):
    a, b = first, second
    while a + b > room:
        if a > b:
            a -= 1
        else:
            b -= 1
    assert share(room, np.array(first), np.array(second)) == (a, b)


def test_a_model_with_one_separator_gets_one(tmp_path):
    folder = Folder(tmp_path).split("train", input0=["a b"], input1=["c"], labels=["x"])
    task = folder.task()
    task.build_model(OmegaConf.structured(named("bert_a_tiny", pair_separators=1)))
    task.load_dataset("train")
    numbers = [task.source_dictionary.index(word) for word in "abc"]
    tokens = task.dataset("train")[0]["net_input.src_tokens"].tolist()
    assert tokens == [BOS, *numbers[:2], EOS, numbers[2], EOS]


class Folder:
    """Writes a data folder."""

    def __init__(self, path):
        self.path = path
        self.text, self.labels = dictionary_of(*"abcdefgh"), dictionary_of()

    def split(self, name, labels=None, **sides):
        for side, lines in sides.items():
            self.write(side, name, lines, self.text)
        if labels and isinstance(labels[0], str):
            self.write("label", name, labels, self.labels)
        elif labels is not None:
            (self.path / "label").mkdir(exist_ok=True)
            (self.path / "label" / f"{name}.label").write_text("".join(f"{label}\n" for label in labels))
        return self

    def write(self, side, name, lines, dictionary):
        folder = self.path / side
        folder.mkdir(parents=True, exist_ok=True)
        builder = make_builder(str(folder / f"{name}.bin"), "mmap", vocab_size=len(dictionary))
        for line in lines:
            builder.add_item(dictionary.encode_line(line, add_if_not_exist=side == "label" and name == "train").long())
        builder.finalize(str(folder / f"{name}.idx"))
        dictionary.save(str(folder / "dict.txt"))

    def task(self, **fields):
        defaults = {
            "regression_target": False,
            "num_classes": 2,
            "classification_head_name": "head",
            "seed": 1,
            "data": str(self.path),
        }
        config = OmegaConf.structured(TupeSentencePredictionConfig(**{**defaults, **fields}))
        return TupeSentencePredictionTask.setup_task(config)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "data")


def load(task, split="train"):
    """The examples of a split by number: tokens and target."""
    dataset = task.load_dataset(split)
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=2)
    samples = [dataset.collater([dataset[i] for i in batch]) for batch in batches]
    words = task.source_dictionary.symbols
    return {
        number: (" ".join(words[token] for token in tokens).replace(" <pad>", ""), target)
        for sample in samples
        for number, tokens, target in zip(
            sample["id"].tolist(), sample["net_input"]["src_tokens"], sample["target"].tolist()
        )
    }


def test_pairs_and_their_classes(folder):
    folder.split("train", input0=["a b c", "d"], input1=["e f", "g h a"], labels=["no", "yes"])
    folder.split("valid1", input0=["b"], input1=["c"], labels=["yes"])
    task = folder.task()
    assert load(task) == {0: ("<s> a b c </s> </s> e f </s>", 0), 1: ("<s> d </s> </s> g h a </s>", 1)}
    assert task.metrics(torch.eye(2), [0, 1])["mcc"] == 1 and load(task, "valid1") == {0: ("<s> b </s> </s> c </s>", 1)}


@pytest.mark.parametrize("regression", [False, True])
def test_unordered_pairs_are_trained_on_in_both_orders(folder, regression):
    labels, wanted = ([0.25, 0.5],) * 2 if regression else (["no", "yes"], [0, 1])
    for split in ("train", "valid"):
        folder.split(split, input0=["a b c", "d"], input1=["e", "f g"], labels=labels)
    said = {"regression_target": regression, "num_classes": 1 if regression else 2, "both_orders": True}
    one = {0: ("<s> a b c </s> </s> e </s>", wanted[0]), 1: ("<s> d </s> </s> f g </s>", wanted[1])}
    other = {2: ("<s> e </s> </s> a b c </s>", wanted[0]), 3: ("<s> f g </s> </s> d </s>", wanted[1])}
    assert load(folder.task(unordered=True, **said)) == {**one, **other}
    assert load(folder.task(unordered=True, **said), "valid") == one
    assert load(folder.task(**said)) == one


def test_the_order_depends_on_the_seed(folder):
    folder.split("train", input0=[*"abcdefgh"], labels=["x"] * 8)
    orders = [folder.task(seed=seed).load_dataset("train").ordered_indices().tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_regression_targets_stay_exact_in_half_precision(folder):
    folder.split("train", input0=["a", "b"], labels=[3.8, 0.1])
    task = folder.task(regression_target=True, num_classes=1)
    dataset = task.load_dataset("train")
    sample = dataset.collater([dataset[0], dataset[1]])
    assert sample["target"].dtype == torch.float64  # fairseq turns float32 into float16
    assert sample["target"].tolist() == [3.8, 0.1]


def test_checkpoints_have_the_scale_of_the_labels(folder):
    folder.split("train", input0=["a"], labels=[0.5])
    row = {"name": "data", "splits": [], "texts": ["a"], "label": "b", "classes": [], "scale": 20.0}
    (folder.path / "manifest.json").write_text(json.dumps({"task": row}))
    task = folder.task(regression_target=True, num_classes=1)
    cfg = OmegaConf.create({"task": {}})
    task.before_training(cfg)
    assert cfg.task.label_scale == 20


@pytest.mark.parametrize("labels", [["x"], [0.5]])
def test_folders_of_different_lengths_are_refused(folder, labels):
    """fairseq would pair what does not belong together, in silence."""
    folder.split("train", input0=["a", "b"], labels=["x", "x"]).split("valid", input0=["a", "b"], labels=labels)
    regression = {"regression_target": True, "num_classes": 1} if labels == [0.5] else {}
    with pytest.raises(AssertionError, match="the files of valid differ in number of rows"):
        folder.task(**regression).load_dataset("valid")
