"""A small English corpus that every Python carries: its language reference and the docstrings of its library.

The files are parsed, never run. Running English is kept, sentence by sentence: code, doctests, signatures, tables,
headings and markup go, and so does a sentence that was seen before.
"""

import ast
import hashlib
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from tupe.errors import UserError
from tupe.files import write_bytes

Document = list[list[str]]  # paragraphs of sentences

_SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test"}

_BULLET = re.compile(r"^(\s*)(?:[*+-]|\d+[.)])(\s+)(?=\S)")
_MARKUP = (
    (re.compile(r":[a-z:]+:`~?([^`<]+?)(?: <[^>]*>)?`"), r"\1"),  # :func:`name`
    (re.compile(r"``?([^`]+)``?"), r"\1"),
    (re.compile(r"(?<!\w)\*{1,2}(\w[^*]*)\*{1,2}(?!\w)"), r"\1"),  # *emphasis*
    (re.compile(r"\s\[\d+\]"), ""),  # a footnote
)
_SENTENCE_END = re.compile(r"(?<=[.?!])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!cf\.)(?<!vs\.)\s+(?=[\"'(]*[A-Z])")
_WHOLE = re.compile(r"[\"'(]?[A-Z].*[.?!][\"')]*")
_WORD = re.compile(r"[\"'(]*[A-Za-z]+(?:['/-][A-Za-z]+)*[\"').,;:?!]*")
_FUNCTION_WORD = re.compile(
    r"\b(a|an|and|are|as|at|be|by|can|for|from|has|have|if|in|is|it|its|may|not|of|on|or|that|the|this|to|was|when|which"
    r"|will|with|you)\b",
    re.IGNORECASE,
)
_ASCII = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\u00a0": " "})


def python_documents(library: Path | None = None) -> dict[str, Document]:
    """Return the documents of a standard library: each topic of the language reference, and each file's docstrings.

    By default the library is the running Python's. Raise `UserError` for one without documentation.
    """
    library = library or Path(sysconfig.get_paths()["stdlib"])
    seen: set[str] = set()
    documents = {}
    for name, texts in _texts(library):
        paragraphs = [[s for s in paragraph if not _repeats(s, seen)] for t in texts for paragraph in paragraphs_of(t)]
        if any(paragraphs):
            documents[name] = [paragraph for paragraph in paragraphs if paragraph]
    if not documents:
        raise UserError(f"{library} holds no documentation: use a Python whose standard library has its sources.")
    return documents


def paragraphs_of(text: str) -> Iterator[list[str]]:
    """Return the paragraphs of running English in a docstring or topic, as lists of sentences."""
    for block in _blocks(text):
        for pattern, plain in _MARKUP:
            block = pattern.sub(plain, block)
        sentences = [sentence for sentence in split_sentences(block) if is_english(sentence)]
        if sentences:
            yield sentences


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph: they end with `.`, `?` or `!` before a capital letter."""
    return _SENTENCE_END.split(" ".join(text.split()))


def is_english(sentence: str) -> bool:
    """Tell whether a text is a sentence of 4 to 60 words, four fifths in letters alone, with a function word."""
    words = sentence.split()
    if not 4 <= len(words) <= 60 or not _WHOLE.fullmatch(sentence) or not _FUNCTION_WORD.search(sentence):
        return False
    return 5 * sum(_WORD.fullmatch(word) is not None for word in words) >= 4 * len(words)


def is_held_out(name: str, percent: int) -> bool:
    """Tell by its name alone whether a document is held out, so that the version of Python does not matter."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100 < percent


def write_documents(documents: list[Document], path: str | Path) -> None:
    """Write one paragraph a line and an empty line between documents."""
    text = "\n\n".join("\n".join(" ".join(sentences) for sentences in document) for document in documents)
    write_bytes(Path(path), f"{text}\n".encode())


def _texts(library: Path) -> Iterator[tuple[str, list[str]]]:
    """Name and texts of each document, in the order of their names."""
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
            yield relative.as_posix(), list(_docstrings(tree))


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module, class or function and of what it defines, in the order of their lines."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        text = ast.get_docstring(node)
        if text:
            yield text
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):  # no expression defines anything
        for statement in getattr(node, part, ()):
            yield from _docstrings(statement)


def _blocks(text: str) -> Iterator[str]:
    """Yield runs of lines with the same indentation. A bullet starts a block, and a doctest is none."""
    lines: list[str] = []
    indentation, in_doctest = 0, False
    for line in [*inspect.cleandoc(text).translate(_ASCII).splitlines(), ""]:
        plain = _BULLET.sub(lambda match: " " * len(match[0]), line)
        here = len(plain) - len(plain.lstrip())
        in_doctest = bool(line.strip()) and (in_doctest or line.lstrip().startswith(">>>"))
        if lines and (in_doctest or plain != line or not line.strip() or here != indentation):
            yield "\n".join(lines)
            lines = []
        if line.strip() and not in_doctest:
            lines.append(plain)
            indentation = here


def _repeats(sentence: str, seen: set[str]) -> bool:
    key = sentence.lower()
    if key in seen:
        return True
    seen.add(key)
    return False
