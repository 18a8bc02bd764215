"""Clean a part: run what the plan keeps of it through the text stages, and count its words."""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np

from tupe.data.corpus import rare_words, text
from tupe.data.corpus.parts import Part
from tupe.data.text.stages import TextProcessing

#: Return the text stages, made once in each process.
processing = cache(TextProcessing)


@dataclass(frozen=True)
class Planned:
    """Decisions of the plan about a part."""

    part: Part
    repeated_documents: np.ndarray  # marks its documents that came before
    repeated_lines: np.ndarray  # marks its lines that came before
    valid: np.ndarray  # marks documents that are held out


def clean(stages: tuple[str, ...], language: str, planned: Planned) -> None:
    """Clean a part. The step `clean` leaves `train.txt`, `valid.txt`, and `words` if rare words are to go."""
    part, counts, words, line = planned.part, Counter(), Counter(), 0
    processed, texts = processing(stages, language), {split: bytearray() for split in text.SPLITS}
    for number, lines in enumerate(text.read(part.path("scan", "txt"))):
        again = planned.repeated_lines[line : line + len(lines)]
        line += len(lines)
        if not planned.repeated_documents[number]:
            split = "valid" if planned.valid[number] else "train"
            lines = processed.document([one for one, mark in zip(lines, again) if not mark], counts)
            if lines:
                texts[split] += text.lines_as_text(lines)
                counts[f"{split} documents"] += 1
                counts[f"{split} lines"] += len(lines)
                words.update(word for one in lines for word in one.split())
    for split, content in texts.items():
        part.write("clean", f"{split}.txt", content)
    if "drop-rare-words" in stages:
        rare_words.save_counts(words, part.path("clean", "words"))
    part.finish("clean", counts)
    part.path("scan", "txt").unlink(missing_ok=True)  # no other step needs it
