"""Words with labels: every word is trained on and counted once, at its first token, however long its sentence is."""

from types import SimpleNamespace

import numpy as np
import pytest
from fairseq.data import Dictionary

from tests.data.conftest import prepare_made
from tests.samples import write_dictionary
from tupe.data.binary import writer
from tupe.data.corpus.manifest import Manifest
from tupe.data.glue.prepare import _encode_words
from tupe.data.glue.reader import Row
from tupe.data.words import LabelledWords, entity_scores, named, word_scores
from tupe.errors import UserError

LENGTHS = [1, 7, 8, 9, 30, 64]


@pytest.fixture
def folder(tmp_path):
    """Sentences of these lengths, whose tokens are numbered through and of which every third begins a word."""
    write_dictionary(tmp_path / "input0/dict.txt", [f"p{i}" for i in range(200)])
    write_dictionary(tmp_path / "label/dict.txt", ["O", "B-X", "I-X"])
    for split in ("train", "valid"):
        place = 0
        with writer(tmp_path / "input0" / split, 204) as tokens, writer(tmp_path / "label" / split, 7) as labels:
            for length in LENGTHS:
                tokens(np.array([*range(4 + place, 4 + place + length), 2]), np.array([length + 1]))
                row = [4 + (place + i) % 3 if i % 3 == 0 else 1 for i in range(length)]
                labels(np.array([*row, 2]), np.array([length + 1]))
                place += length
    return tmp_path


def opened(folder, split, max_positions=10, doc_stride=None):
    dictionaries = [Dictionary.load(str(folder / name / "dict.txt")) for name in ("input0", "label")]
    cfg = SimpleNamespace(max_positions=max_positions, doc_stride=doc_stride, num_classes=3, length_window=0, seed=1)
    return LabelledWords(folder, split, *dictionaries, cfg)


@pytest.mark.parametrize(
    ("max_positions", "doc_stride"), [(10, None), (10, 1), (10, 8), (5, 2), (3, None), (512, None)]
)
@pytest.mark.parametrize("split", ["train", "valid"])
def test_every_word_counts_once(split, max_positions, doc_stride, folder):
    data = opened(folder, split, max_positions, doc_stride)
    places = []
    for batch in data.batch_by_size(data.ordered_indices(), max_sentences=3):
        sample = data.collater([data[index] for index in batch])
        tokens = sample["net_input"]["src_tokens"]
        assert tokens.shape[1] <= max_positions and (tokens[:, 0] == 0).all()
        word = sample["word"]
        assert (tokens[word] - 4).tolist() == sample["place"][word].tolist()  # as the tokens are numbered
        assert ((sample["target"] != -100) == word).all() and sample["words"] == int(word.sum())
        assert (sample["target"][word] == sample["place"][word] % 3).all()
        places += sample["place"][word].tolist()
    expected = np.concatenate([places for places, _ in data.sentences()])
    assert sorted(places) == expected.tolist() and len(expected) == sum(-(-length // 3) for length in LENGTHS)


def test_a_word_counts_where_it_has_most_context(folder):
    data = opened(folder, "valid", 10, 4)
    for index in range(len(data)):
        item = data[index]
        inside = item["word"].nonzero().flatten()
        sentence = int(data._sentence[index])
        first, last = int(data._start[index]) == 0, index + 1 == len(data) or data._sentence[index + 1] != sentence
        if not first:
            assert (inside >= 2).all()  # the first two tokens of a window are nearer to the middle of the one before
        if not last:
            assert (inside <= len(item["source"]) - 3).all()


def test_damaged_data_are_refused(folder):
    with writer(folder / "label/valid", 7) as labels:
        labels(np.array([4, 2]), np.array([2]))
    with pytest.raises(UserError, match="are not those of its words"):
        opened(folder, "valid")


def test_scores():
    names = ["O", "B-X", "I-X"]
    sentences = [(np.array([0, 3, 5]), np.array([1, 2, 0])), (np.array([7]), np.array([1]))]
    known, found = named(sentences, {0: 1, 3: 0, 5: 0, 7: 1}, names)
    assert known == [["B-X", "I-X", "O"], ["B-X"]] and found == [["B-X", "O", "O"], ["B-X"]]
    assert entity_scores(known, found) == {"f1": 0.5, "precision": 0.5, "recall": 0.5}
    assert word_scores(known, found, True) == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 0.75}
    assert word_scores(known, found, False) == {"accuracy": 0.75}


@pytest.fixture(scope="module")
def cased(tmp_path_factory):
    """A corpus whose texts are not rewritten."""
    options = "--profile sentencepiece --vocab-size 100 --valid-documents 5"
    return prepare_made(tmp_path_factory.mktemp("cased"), 40, options)


@pytest.mark.parametrize("profile", ["paper", "sentencepiece"])
def test_the_first_token_of_every_word(profile, prepared, cased):
    corpus = prepared if profile == "paper" else cased
    words = ("Anna", "sees", "#", "\u200b", "...", "\u200e", "10 000", "ﬁnds", "e\u0301té", "漢", "the", "house,")
    labels = tuple(f"L{i}" for i in range(len(words)))
    (row,) = _encode_words(Manifest.load(corpus).folder, [Row(words, labels)])
    assert [label for label in row.label if label is not None] == list(labels)
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *Dictionary.load(str(corpus / "dict.txt")).symbols[4:]]
    place = [i for i, label in enumerate(row.label) if label is not None]
    spelt = ["".join(symbols[i] for i in row.numbers[0][a:b]) for a, b in zip(place, [*place[1:], None])]
    folded = [text.replace("▁", "").lower() for text in spelt]
    assert (folded[0], folded[1], folded[10]) == ("anna", "sees", "the")
    assert all(folded)  # also of what no token stands for: the unknown one
    assert all(text.startswith("▁") for text, word in zip(spelt, words) if word in ("Anna", "sees", "the"))
