"""A task that only word order can solve, in CoLA's file format: is the sentence as written, or are two words swapped?

Each sentence stands there twice, as written (1) and with two neighbouring words swapped (0). Both have the same bag of
words, so a model that is blind to order cannot be better than chance: its Matthews correlation is 0.
"""

import random
import re
from collections.abc import Sequence
from pathlib import Path

from tupe.errors import UserError
from tupe.files import write_bytes

_PLAIN_WORD = re.compile(r"[A-Za-z]+")


def swap_neighbours(sentence: str, rng: random.Random) -> str | None:
    """Return the sentence with two neighbouring words swapped; nothing if no two can be.

    Words with punctuation and the first word, whose capital would tell, stay where they are.
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


def write_word_order(sentences: Sequence[str], folder: str | Path, *, seed: int = 1) -> dict[str, int]:
    """Write `train.tsv`, `dev.tsv` and `test.tsv` as CoLA has them, and return the number of lines of each.

    A line of train and dev is `source<TAB>label<TAB>star<TAB>sentence`, without a header; test has a header, and
    `index<TAB>sentence`. Both forms of a sentence are in the same file. The sentences are English, from documents that
    pre-training has not seen; the seed is of the swaps and of the order.

    Raises:
        UserError: if so few sentences can be swapped that a file would be empty.
    """
    rng = random.Random(seed)
    pairs, seen = [], set()
    for sentence in sentences:
        sentence = " ".join(sentence.split())
        swapped = swap_neighbours(sentence, rng)
        if swapped is not None and not {sentence, swapped} & seen:
            seen.update((sentence, swapped))
            pairs.append((sentence, swapped))
    rng.shuffle(pairs)
    count = len(pairs) // 5  # a fifth in dev, as many in test
    parts = {"dev": pairs[:count], "test": pairs[count : 2 * count], "train": pairs[2 * count :]}
    if not all(parts.values()):
        raise UserError(
            f"of {len(sentences)} sentences {len(pairs)} have two neighbouring words to swap, too few for train, dev "
            "and test: give more text, or longer sentences by --max-words."
        )
    for name, part in parts.items():
        lines = [(1, pair[0]) for pair in part] + [(0, pair[1]) for pair in part]
        rng.shuffle(lines)
        if name == "test":
            rows = ["index\tsentence", *(f"{i}\t{sentence}" for i, (_, sentence) in enumerate(lines))]
        else:
            rows = [f"docs\t{label}\t{'' if label else '*'}\t{sentence}" for label, sentence in lines]
        write_bytes(Path(folder) / f"{name}.tsv", "".join(f"{row}\n" for row in rows).encode())
    return {name: 2 * len(part) for name, part in parts.items()}
