"""Parallel text as files."""

import gzip

import pytest

from tupe.cli.main import main

WORDS = {"a": "ein", "dog": "Hund", "man": "Mann", "sees": "sieht", "the": "der", "and": "und", "red": "rote"}


def pairs(number):
    """Sentences of which each word has its translation."""
    words = list(WORDS)
    source = [" ".join(words[(i * j + j) % len(words)] for j in range(1, 4 + i % 5)) for i in range(number)]
    return source, [" ".join(WORDS[word] for word in line.split()) for line in source]


@pytest.fixture
def text(tmp_path):
    """`text("train", source_lines, target_lines)`: writes the two files and returns their prefix."""

    def write(name, source, target, packed=False):
        for language, side in (("en", source), ("de", target)):
            content = "".join(f"{line}\n" for line in side).encode()
            path = tmp_path / "text" / f"{name}.{language}{'.gz' if packed else ''}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(content) if packed else content)
        return str(tmp_path / "text" / name)

    return write


@pytest.fixture
def prepare(tmp_path):
    """`prepare("--train", ...)`: the exit status of the command, which writes to `tmp_path/out`."""

    def run(*options, out="out"):
        fixed = ["prepare-translation", "en", "de", str(tmp_path / out), "--vocab-size", "60", "--workers", "1"]
        return main([*fixed, *map(str, options)])

    return run
