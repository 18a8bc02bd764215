"""The word order task: both forms have the same words, and no sentence is in two files."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupe.data.word_order import swap_neighbours, write_word_order
from tupe.errors import UserError

WORDS = st.sampled_from(["The", "the", "a", "dog", "cat", "sees", "takes,", "(well)", "3.11", "it's", "end.", "End"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@given(SENTENCES, st.randoms())
def test_two_neighbouring_words_are_swapped(sentence, rng):
    swapped = swap_neighbours(sentence, rng)
    words = sentence.split()
    plain = [word.isalpha() for word in words]
    can = [
        i for i in range(1, len(words) - 1) if plain[i] and plain[i + 1] and words[i].lower() != words[i + 1].lower()
    ]
    assert (swapped is None) == (not can)
    if swapped is not None:
        changed = [i for i, (before, after) in enumerate(zip(words, swapped.split())) if before != after]
        assert changed == [changed[0], changed[0] + 1]
        assert changed[0] in can
        assert Counter(swapped.split()) == Counter(words)


def read(folder):
    """Label and sentence of each line of train and dev."""
    files = {}
    for name in ("train", "dev"):
        rows = [line.split("\t") for line in (folder / f"{name}.tsv").read_text().splitlines()]
        assert all(len(row) == 4 and row[2] == ("" if row[1] == "1" else "*") for row in rows)
        files[name] = [(row[1], row[3]) for row in rows]
    return files


@given(st.lists(SENTENCES, min_size=60, max_size=90, unique=True), st.integers(0, 9))
def test_files_are_balanced_and_apart(tmp_path_factory, sentences, seed):
    folder = tmp_path_factory.mktemp("CoLA")
    try:
        counts = write_word_order(sentences, folder, seed=seed)
    except UserError:
        return
    files = read(folder)
    rows = (folder / "test.tsv").read_text().splitlines()
    assert rows[0] == "index\tsentence"
    files["test"] = [(None, row.split("\t")[1]) for row in rows[1:]]
    assert counts == {name: len(lines) for name, lines in files.items()}
    for name in ("train", "dev"):
        words = {
            label: Counter(tuple(sorted(text.split())) for other, text in files[name] if other == label)
            for label in ("0", "1")
        }
        assert words["0"] == words["1"]
    texts = [text for lines in files.values() for _, text in lines]
    assert len(set(texts)) == len(texts)


def test_seed_decides(tmp_path):
    sentences = [f"This is the {word} sentence of all." for word in ("first", "second", "third", "fourth", "fifth")]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_word_order(sentences, tmp_path / name, seed=seed)
    texts = [(tmp_path / name / "train.tsv").read_text() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_too_few_sentences_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"too few .* by --max-words"):
        write_word_order(["This is one sentence.", "Short."], tmp_path)
