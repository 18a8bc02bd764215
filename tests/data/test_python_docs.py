"""English from a standard library, without running it."""

import pytest

from tupe.data.python_docs import (
    is_english,
    is_held_out,
    paragraphs_of,
    python_documents,
    split_sentences,
    write_documents,
)
from tupe.errors import UserError

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

    Usage:

        items = [3, 1, 2]
        items.sort(key=None)
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


@pytest.mark.parametrize(
    "text",
    [
        "Too short a.",
        "no capital letter at the start of this.",
        "This one has no end and is not kept",
        "Table | of | a | b | c | d | is no sentence.",
        "Words galore without function ones.",
        "It is " + "very " * 60 + "long.",
    ],
)
def test_other_text_is_not_english(text):
    assert not is_english(text)


def test_sentences_end_before_a_capital():
    text = "It is so.  Is it? That's it, i.e. The end of version 3.11 is near!"
    assert split_sentences(text) == ["It is so.", "Is it?", "That's it, i.e. The end of version 3.11 is near!"]


@pytest.fixture
def library(tmp_path):
    files = {
        "ends.py": '"""This file would end the program if it was run."""\nraise SystemExit',
        "wrong.py": '"""This file is not Python, so it is passed over."""\nprint "no"',
        "pydoc_data/topics.py": 'topics = {"if": "The if statement is used for a choice.\\n", "list": "| - |"}',
        "site-packages/other.py": '"""This package is not a part of the library."""',
        "shapes.py": '''
"""This is the first line of a module. It has two sentences of its own."""
class Shape:
    """A shape is what has an area and a name."""
    def area(self):
        """A SHAPE is what has an area and a name."""
    async def draw(self):
        """This is drawn on the screen at once."""
''',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_library_is_parsed_not_run_and_repeated_sentences_go(library):
    assert python_documents(library) == {
        "ends.py": [["This file would end the program if it was run."]],
        "topic if": [["The if statement is used for a choice."]],
        "shapes.py": [
            ["This is the first line of a module.", "It has two sentences of its own."],
            ["A shape is what has an area and a name."],
            ["This is drawn on the screen at once."],
        ],
    }


def test_definitions_within_statements_are_found_in_the_order_of_their_lines(tmp_path):
    (tmp_path / "where.py").write_text('''
try:
    def f():
        """This function is the first, in a try."""
except OSError:
    def f():
        """This function is the second, in a handler."""
else:
    with open("f"):
        class F:
            """This class is the third, in a context."""
finally:
    match f:
        case 1:
            def f():
                """This function is the fourth, in a case."""
if f:
    pass
elif F:
    def f():
        """This function is the fifth, in a branch."""
''')
    ((_, paragraphs),) = python_documents(tmp_path).items()
    assert [sentence.split()[4] for (sentence,) in paragraphs] == ["first,", "second,", "third,", "fourth,", "fifth,"]


def test_documents_are_written_a_paragraph_a_line(library, tmp_path):
    write_documents(list(python_documents(library).values())[1:], tmp_path / "new" / "text.txt")
    assert (tmp_path / "new" / "text.txt").read_text() == (
        "The if statement is used for a choice.\n"
        "\n"
        "This is the first line of a module. It has two sentences of its own.\n"
        "A shape is what has an area and a name.\n"
        "This is drawn on the screen at once.\n"
    )


def test_library_without_documentation_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no documentation"):
        python_documents(tmp_path)


def test_held_out_part_has_about_the_share_asked_for():
    held_out = sum(is_held_out(f"module_{i}.py", 20) for i in range(1000))
    assert 150 < held_out < 250
    assert not any(is_held_out(f"module_{i}.py", 0) for i in range(100))
    assert all(is_held_out(f"module_{i}.py", 100) for i in range(100))


def test_the_running_python_has_a_corpus():
    documents = python_documents()
    sentences = [sentence for document in documents.values() for paragraph in document for sentence in paragraph]
    assert len(sentences) > 8000
    assert len({sentence.lower() for sentence in sentences}) == len(sentences)
    assert all(map(is_english, sentences))
