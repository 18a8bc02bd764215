"""English from a standard library, without running it; and a task in which both forms have the same words."""

import random
from collections import Counter

from lab.text import is_held_out, paragraphs_of, python_documents, swap_neighbors, write_documents, write_word_order

DOCSTRING = """Sort the list in place and return nothing.

    The sort is stable, e.g. it keeps the order of equal items.  With a key, the
    function ``key`` is called once for each item; see :func:`sorted` for a copy.

    >>> [2, 1].sort()
    This line is the output of a doctest.

    Parameters
    ----------
    key -- a function of one argument

      * The first item of this list is a sentence
        that goes on in a second line.
      * The second item of it is one too.
    """


def test_running_english_is_kept_and_the_rest_is_not():
    assert list(paragraphs_of(DOCSTRING)) == [
        ["Sort the list in place and return nothing."],
        [
            "The sort is stable, e.g. it keeps the order of equal items.",
            "With a key, the function key is called once for each item; see sorted for a copy.",
        ],
        ["The first item of this list is a sentence that goes on in a second line."],
        ["The second item of it is one too."],
    ]


LIBRARY = {
    "ends.py": '"""This file would end the program if it was run."""\nraise SystemExit',
    "wrong.py": '"""This file is not Python, so it is passed over."""\nprint "no"',
    "pydoc_data/topics.py": 'topics = {"if": "The if statement is used for a choice.\\n", "list": "| - |"}',
    "shapes.py": '''
"""This is the first line of a module. It has two sentences of its own."""
class Shape:
    """A shape is what has an area and a name."""
    def area(self):
        """A SHAPE is what has an area and a name."""
''',
}


def test_a_library_is_parsed_not_run_and_repeated_sentences_go(tmp_path):
    for name, text in LIBRARY.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = python_documents(tmp_path)
    module = ["This is the first line of a module.", "It has two sentences of its own."]
    assert found == {
        "ends.py": [["This file would end the program if it was run."]],
        "topic if": [["The if statement is used for a choice."]],
        "shapes.py": [module, ["A shape is what has an area and a name."]],
    }
    write_documents(list(found.values())[1:], tmp_path / "new/text.txt")
    lines = (tmp_path / "new/text.txt").read_text().splitlines()
    assert lines == ["The if statement is used for a choice.", "", " ".join(module), *found["shapes.py"][1]]
    assert 150 < sum(is_held_out(f"module_{i}.py", 20) for i in range(1000)) < 250


def test_two_neighboring_words_are_swapped():
    """The first word, words with punctuation, and two that are alike stay."""
    assert swap_neighbors("The dog the cat, sees it.", random.Random(0)) == "The the dog cat, sees it."
    assert swap_neighbors("The dog, the The cat.", random.Random(0)) is None


def test_files_are_balanced_and_apart(tmp_path):
    write_word_order([f"This is the {chr(97 + i)} sentence of all." for i in range(26)], tmp_path)
    train, dev, test = ((tmp_path / f"{name}.tsv").read_text().splitlines() for name in ("train", "dev", "test"))
    rows = [line.split("\t") for line in train + dev]
    assert all(len(row) == 4 and row[2] == ("" if row[1] == "1" else "*") for row in rows)
    words = {label: Counter(tuple(sorted(row[3].split())) for row in rows if row[1] == label) for label in "01"}
    assert words["0"] == words["1"]
    texts = [row[3] for row in rows] + [line.split("\t")[1] for line in test]
    assert len(set(texts)) == len(texts) == 2 * 26 + 1
