"""Write fairseq's binary data: one folder, or several for a large corpus; fairseq reads one each epoch (`a:b:c`)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tupe.data.binary import index_and_data, writer
from tupe.data.corpus.parts import Part

SHARD_BYTES = 1 << 30  # bytes of cleaned text in a shard


def folders(number: int) -> list[str]:
    """Return the folders of a corpus' shards, as seen from its own; the first is that folder itself."""
    return [".", *(f"shard{shard}" for shard in range(1, number))]


@dataclass(frozen=True)
class Shard:
    """Binary data to be made of parts of the corpus."""

    prefix: Path  # path without `.bin` and `.idx`
    split: str  # `train` or `valid`
    number: int
    parts: tuple[Part, ...]
    symbols: int


def assemble(shard: Shard) -> int:
    """Put together what each part gives to a shard, unless it is there; return how many bytes it has."""
    index, data = index_and_data(shard.prefix)
    if not index.exists():  # it comes last
        with writer(shard.prefix, shard.symbols) as add:
            for part in shard.parts:
                given = np.fromfile(part.path("encode", f"{shard.split}.shards"), dtype=np.int64).reshape(-1, 2)
                begins, ends = given[: shard.number].sum(axis=0), given[shard.number]
                sizes, tokens = (
                    np.fromfile(part.path("encode", f"{shard.split}.{kind}"), np.int32, count, offset=4 * begin)
                    for kind, count, begin in zip(("sizes", "tokens"), map(int, ends), map(int, begins))
                )
                add(tokens, sizes)
    return data.stat().st_size
