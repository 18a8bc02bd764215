"""Makes a text and a task from the installed packages: which library does a sentence of documentation belong to?

python examples/library_task.py OUT [SENTENCES]

text.txt                      all documents that are not held out: a paragraph per line, an empty line between documents
train.tsv, dev.tsv, test.tsv  columns text and label, at most SENTENCES of each library in train.tsv (4000 by default)
"""

import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the clone

from lab.text import is_held_out, python_documents, write_documents

LIBRARIES = {"python": None, "numpy": "numpy", "torch": "torch"}  # label -> package; None: the standard library


def folder_of(package: str | None) -> Path | None:
    return Path(importlib.util.find_spec(package).origin).parent if package else None


def file_of(document: str) -> str:
    """Return the file that a document's sentences go to; its name decides, so that it is the same every time."""
    if is_held_out(document, 20):
        return "test"
    return "dev" if is_held_out(document, 30) else "train"


def main(out: Path, most: int = 4000) -> None:
    documents = {label: python_documents(folder_of(package)) for label, package in LIBRARIES.items()}
    sentences = {
        label: [
            (file_of(name), sentence)
            for name, paragraphs in found.items()
            for paragraph in paragraphs
            for sentence in paragraph
        ]
        for label, found in documents.items()
    }
    seen = Counter(sentence for found in sentences.values() for sentence in {sentence for _, sentence in found})
    out.mkdir(parents=True, exist_ok=True)
    text = [
        paragraphs for found in documents.values() for name, paragraphs in found.items() if file_of(name) == "train"
    ]
    write_documents(text, out / "text.txt")
    draw = random.Random(1)
    for part, limit in (("train", most), ("dev", most // 8), ("test", most // 8)):
        rows = []
        for label, found in sentences.items():  # sentences that two libraries share are left out
            mine = [sentence for where, sentence in found if where == part and seen[sentence] == 1]
            rows += [(sentence, label) for sentence in draw.sample(mine, min(limit, len(mine)))]
        draw.shuffle(rows)
        lines = [f"{' '.join(sentence.split())}\t{label}\n" for sentence, label in rows]
        (out / f"{part}.tsv").write_text("".join(["text\tlabel\n", *lines]), encoding="utf-8")
        print(f"{out / part}.tsv: {len(rows):,} rows, {dict(Counter(label for _, label in rows))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
