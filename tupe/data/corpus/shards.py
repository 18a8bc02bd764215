"""fairseq's binary data: one folder, or for a large corpus several, of which fairseq reads one an epoch (`a:b:c`)."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from tupe.data.binarise import binarise
from tupe.data.corpus.text import SPLITS, lines_as_text, read
from tupe.data.corpus.work import Work, progress

SHARD_TOKENS = 1 << 28


def folders(number: int) -> list[str]:
    """The folders of a corpus' shards, as seen from its own; the first is that folder itself."""
    return [".", *(f"shard{shard}" for shard in range(1, number))]


def split(work: Work, shards: int) -> list[Path]:
    """Deals the training documents out to the shards, each in its turn; gives the validation data to the first.

    Returns:
        The training text of each shard; the validation text is `valid` beside the first. Then the texts of the step
        `encode` are gone.
    """
    folder = work.folder / "shards"
    train = [folder / f"train{shard}" for shard in range(shards)]
    done = folder / "done"
    if not done.exists():
        folder.mkdir(exist_ok=True)
        size = sum(work.path("encode", name, f"{kind}.txt").stat().st_size for name in work.names for kind in SPLITS)
        with progress("shards", size) as bar, ExitStack() as stack:
            for kind, paths in (("train", train), ("valid", [folder / "valid"])):
                turn = cycle([stack.enter_context(path.open("wb")) for path in paths])
                for name in work.names:
                    for lines in read(work.path("encode", name, f"{kind}.txt")):
                        bar.update(next(turn).write(lines_as_text(lines)))
        done.touch()
    work.drop_texts("encode")
    return train


def binarise_all(texts: list[Path], out: Path, dictionary: Path, workers: int) -> None:
    """Makes fairseq's data of the texts that are still there; one that is done is removed."""
    for number, (text, name) in enumerate(zip(texts, folders(len(texts))), start=1):
        if text.exists():
            size = f"{text.stat().st_size / 1e6:.0f} MB of pieces"
            print(f"binarise  : {size}, shard {number} of {len(texts)}", file=sys.stderr, flush=True)
            valid = text.with_name("valid")
            splits = {"train": [text]}
            if name == "." and valid.stat().st_size:
                splits["valid"] = [valid]
            binary = text.with_name("binary")
            # fairseq divides a file into parts, does all but the first at the same time, and then the first alone
            binarise(binary, dictionary, splits, workers + (workers > 1))
            (out / name).mkdir(exist_ok=True)
            for file in sorted(binary.iterdir()):
                file.replace(out / name / file.name)
            text.unlink()
