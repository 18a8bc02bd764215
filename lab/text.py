"""Write the quickstart's text, and a task that requires word order, from the documentation that comes with Python.

    python -m lab.text TEXT TASK

TEXT gets pretraining.txt and, from other documents, finetuning.txt: a paragraph per line, an empty line between
documents. Running English is kept, sentence by sentence; code, doctests, tables and markup go, and so do repeated
sentences. The library's files are parsed, never run.

TASK gets CoLA/{train,dev,test}.tsv in CoLA's format: is a sentence as written, or are two neighboring words swapped?
Each sentence is there in both forms, which have the same bag of words. So a model that is blind to order cannot be
better than chance: its Matthews correlation is 0.
"""

import ast
import hashlib
import inspect
import random
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from tupe.util import atomic

Document = list[list[str]]  # paragraphs of sentences

_HELD_OUT = 20  # percent of the documents, in finetuning.txt
_MAX_WORDS = 20  # of a sentence of the task
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test"}

#: Between paragraphs: the mark of an item of a list, an empty line, or a colon at the end of a line.
_BREAK = re.compile(r"(?:^|\n)\s*(?:[*+-]|\d+[.)])\s+|\n\s*\n|:\n")
_MARKUP = re.compile(r"(?::[a-z:]+:)?``?~?([^`<]+?)(?: <[^>]*>)?``?|(?<!\w)\*{1,2}(\w[^*]*)\*{1,2}(?!\w)")
#: Sentences end with `.`, `?` or `!` before a capital letter.
_SENTENCE_END = re.compile(r"(?<=[.?!])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!cf\.)(?<!vs\.)\s+(?=[\"'(]*[A-Z])")
_WHOLE = re.compile(r"[\"'(]?[A-Z].*[.?!][\"')]*")
_WORD = re.compile(r"[\"'(]*[A-Za-z]+(?:['/-][A-Za-z]+)*[\"').,;:?!]*")
_PLAIN_WORD = re.compile(r"[A-Za-z]+")


def python_documents(library: Path | None = None) -> dict[str, Document]:
    """Return the documents of a library: each topic of the language reference, and each file's docstrings.

    By default the library is the running Python's own.
    """
    seen: set[str] = set()
    documents = {}
    for name, texts in _texts(library or Path(sysconfig.get_paths()["stdlib"])):
        paragraphs = [_without_repeats(paragraph, seen) for text in texts for paragraph in paragraphs_of(text)]
        if any(paragraphs):
            documents[name] = [paragraph for paragraph in paragraphs if paragraph]
    return documents


def paragraphs_of(text: str) -> Iterator[list[str]]:
    """Return the paragraphs of running English in a docstring or topic, as lists of sentences."""
    for block in _BREAK.split(inspect.cleandoc(text)):
        plain = " ".join(_MARKUP.sub(r"\1\2", block).split())
        sentences = [sentence for sentence in _SENTENCE_END.split(plain) if is_english(sentence)]
        if sentences and ">>>" not in block:
            yield sentences


def is_english(sentence: str) -> bool:
    """Return whether a text is a sentence of 4 to 60 words, of which at least four fifths are ordinary words."""
    words = sentence.split()
    if not 4 <= len(words) <= 60 or not _WHOLE.fullmatch(sentence):
        return False
    return 5 * sum(_WORD.fullmatch(word) is not None for word in words) >= 4 * len(words)


def is_held_out(name: str, percent: int) -> bool:
    """Return whether a document is held out, which depends on its name and not on the version of Python."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100 < percent


def write_documents(documents: list[Document], path: Path) -> None:
    """Write one paragraph per line, and an empty line between documents."""
    text = "\n\n".join("\n".join(" ".join(sentences) for sentences in document) for document in documents)
    with atomic(path, overwrite=True) as part:
        part.write_text(f"{text}\n", encoding="utf-8")


def _texts(library: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield name and texts of each document, in the order of their names."""
    for path in sorted(library.rglob("*.py")):
        relative = path.relative_to(library)
        if _SKIPPED_FOLDERS.intersection(relative.parts):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in old sources
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # a library may carry sources that are wrong on purpose
            continue
        if relative == Path("pydoc_data", "topics.py"):
            table = next(node.value for node in tree.body if isinstance(node, ast.Assign))
            yield from ((f"topic {name}", [text]) for name, text in sorted(ast.literal_eval(table).items()))
        else:
            nodes = (node for node in ast.walk(tree) if isinstance(node, _WITH_DOCSTRING))
            yield relative.as_posix(), [text for text in map(ast.get_docstring, nodes) if text]


def _without_repeats(sentences: list[str], seen: set[str]) -> list[str]:
    new = [sentence for sentence in sentences if sentence.lower() not in seen]
    seen.update(sentence.lower() for sentence in new)
    return new


def swap_neighbors(sentence: str, rng: random.Random) -> str | None:
    """Return the sentence with two neighboring words swapped; None if no two can be.

    Words with punctuation and the first word, whose capital would show it, stay in place.
    """
    words = sentence.split()
    plain = [_PLAIN_WORD.fullmatch(word) is not None for word in words]
    places = [
        i for i in range(1, len(words) - 1) if plain[i] and plain[i + 1] and words[i].lower() != words[i + 1].lower()
    ]
    if not places:
        return None
    i = rng.choice(places)
    words[i], words[i + 1] = words[i + 1], words[i]
    return " ".join(words)


def write_word_order(sentences: Sequence[str], folder: Path) -> None:
    """Write `train.tsv`, `dev.tsv` and `test.tsv` in CoLA's format.

    A line of train and dev is `source<TAB>label<TAB>star<TAB>sentence`, without a header; test has a header, and
    `index<TAB>sentence`. Both forms of a sentence are in the same file.
    """
    rng = random.Random(1)
    pairs, seen = [], set()
    for sentence in sentences:
        swapped = swap_neighbors(sentence, rng)
        if swapped is not None and not {sentence, swapped} & seen:
            seen |= {sentence, swapped}
            pairs.append((sentence, swapped))
    rng.shuffle(pairs)
    count = len(pairs) // 5  # a fifth in dev, as many in test
    for name, part in {"dev": pairs[:count], "test": pairs[count : 2 * count], "train": pairs[2 * count :]}.items():
        lines = [(1, pair[0]) for pair in part] + [(0, pair[1]) for pair in part]
        rng.shuffle(lines)
        if name == "test":
            rows = ["index\tsentence", *(f"{i}\t{sentence}" for i, (_, sentence) in enumerate(lines))]
        else:
            rows = [f"docs\t{label}\t{'' if label else '*'}\t{sentence}" for label, sentence in lines]
        with atomic(folder / f"{name}.tsv", overwrite=True) as unfinished:
            unfinished.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def main(text: str, task: str) -> None:
    documents = python_documents()
    for name, held_out in (("pretraining.txt", False), ("finetuning.txt", True)):
        part = [document for key, document in documents.items() if is_held_out(key, _HELD_OUT) == held_out]
        write_documents(part, Path(text, name))
        sentences = [sentence for document in part for paragraph in document for sentence in paragraph]
        print(f"{Path(text, name)}: {len(part)} documents, {len(sentences):,} sentences")
    write_word_order([one for one in sentences if len(one.split()) <= _MAX_WORDS], Path(task, "CoLA"))


if __name__ == "__main__":
    main(*sys.argv[1:])
