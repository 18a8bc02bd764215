"""Text of the fixtures as fairseq's data: a corpus, a task of one sentence with three classes, and a translation."""

from pathlib import Path

import numpy as np
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from tests.contract.aliases import WORDS, dictionary

FIXTURES = Path(__file__).parent / "fixtures"
BOS, PAD, EOS = 0, 1, 2
LABELS = ("no", "perhaps", "yes")


def write_indexed(prefix, rows):
    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    for row in rows:
        builder.add_item(torch.tensor(row))
    builder.finalize(f"{prefix}.idx")


def write_dictionaries(folder, words=WORDS):
    """All that loading a model asks for."""
    for name in ("dict.txt", "dict.en.txt", "dict.de.txt", "input0/dict.txt", "label/dict.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(f"{word} 1\n" for word in (LABELS if "label" in name else words)))
    return folder


def write_data(folder):
    """`fixtures/text.txt`, whose last 40 lines are for validation."""
    known, labels = dictionary(mask=False), dictionary(LABELS, mask=False)
    lines = (FIXTURES / "text.txt").read_text().splitlines()
    write_dictionaries(folder)
    for split, part in (("train", lines[:-40]), ("valid", lines[-40:])):
        rows = [[*map(known.index, line.split()), EOS] for line in part]
        write_indexed(folder / split, rows)
        write_indexed(folder / "input0" / split, rows)
        write_indexed(folder / "label" / split, [[labels.index(LABELS[len(row) % 3]), EOS] for row in rows])
        write_indexed(folder / f"{split}.en-de.en", rows)
        write_indexed(folder / f"{split}.en-de.de", [[*row[-2::-1], EOS] for row in rows])
    return folder


def sentences(*lengths):
    """`<s> ... </s>`, padded on the right; those with room for it are pairs, `<s> a </s> </s> b </s>`."""
    tokens = torch.randint(4, 4 + len(WORDS), (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = BOS
    for row, length in zip(tokens, lengths):
        row[length - 1], row[length:] = EOS, PAD
        if length > 6:
            row[4:6] = EOS
    return tokens
