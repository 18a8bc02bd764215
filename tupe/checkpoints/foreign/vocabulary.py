"""Symbols and rows in the order of fairseq's dictionaries: by their roles, then as they were, `<mask>` last.

`masked_lm`, the classification tasks, the segments and the hub expect `<s> <pad> </s> <unk>` at 0 to 3. RoBERTa and
XLM-R have them there; BERT has `[CLS]` at 101, and CamemBERT's dictionary repeats them, so that `<s>` is at 5.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fairseq.data import Dictionary
from torch import Tensor

from tupe.checkpoints.foreign.names import LM_HEAD, OUTPUT, WORDS
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, MASK
from tupe.util import UserError

FILLER = "madeupword"  # fairseq's own name of symbols that round up the size of a table
SPECIAL = (*FAIRSEQ_SYMBOLS, MASK)
#: What CamemBERT's tokenizer in Transformers calls rows that nothing uses.
NOT_USED = "NOTUSED"


class Source(NamedTuple):
    """A vocabulary as it is elsewhere.

    symbols: of the rows; a row without one has no name.
    roles: the row of each of our five special symbols.
    path: of the file that says so.
    """

    symbols: list[str | None]
    roles: dict[str, int]
    path: Path


class Vocabulary(NamedTuple):
    """A vocabulary in our order: the symbols, each with the row that it has elsewhere.

    moved: how many rows have another place.
    dropped: rows without a role that are called like one of the special symbols, or that another of their name hides.
    filled: rows of the table that no symbol has.
    """

    symbols: list[str]
    rows: list[int]
    moved: int
    dropped: list[int]
    filled: int


def by_role(source: Source, rows: int) -> Vocabulary:
    """Order the symbols of a table of so many `rows`."""
    symbols, roles = source.symbols, source.roles
    last = {symbol: row for row, symbol in enumerate(symbols)}  # as fairseq looks a repeated symbol up
    special, kept, dropped = set(roles.values()), [], []
    for row, symbol in enumerate(symbols):
        if row in special:
            continue
        hidden = symbol is not None and (last[symbol] != row or symbol in SPECIAL or symbol.endswith(NOT_USED))
        (dropped if hidden else kept).append(row)
    kept += range(len(symbols), rows)
    used = set(symbols)
    fillers = (name for name in map(f"{FILLER}{{:04d}}".format, itertools.count()) if name not in used)
    names = [next(fillers) if row >= len(symbols) or symbols[row] is None else symbols[row] for row in kept]
    order = [*(roles[name] for name in FAIRSEQ_SYMBOLS), *kept, roles[MASK]]
    return Vocabulary(
        symbols=[*FAIRSEQ_SYMBOLS, *names, MASK],
        rows=order,
        moved=sum(row != place for place, row in enumerate(order)),
        dropped=dropped,
        filled=sum(row >= len(symbols) or symbols[row] is None for row in kept),
    )


def reorder(weights: dict[str, Tensor], rows: list[int]) -> None:
    """Put what has a row for each symbol in another order."""
    for name in (WORDS, OUTPUT, LM_HEAD + "bias"):
        if name in weights:
            weights[name] = weights[name][rows]


def write_dictionary(path: Path, symbols: Iterable[str]) -> Dictionary:
    """Write `dict.txt` of these symbols, the special ones among them, which fairseq adds itself.

    Returns:
        the dictionary that fairseq reads there.

    Raises:
        UserError: a symbol cannot stand in such a file, which would number all symbols after it otherwise.
    """
    symbols = list(symbols)
    listed = "".join(f"{symbol} 1\n" for symbol in symbols if symbol not in SPECIAL)
    path.write_text(listed, encoding="utf-8", newline="\n")
    found = read_dictionary(path)
    if found.symbols != symbols:
        wrong = next((a for a, b in zip(symbols, found.symbols) if a != b), symbols[-1])
        raise UserError(f"The symbol {wrong!r:.60} cannot stand in a dictionary of fairseq.")
    return found


def read_dictionary(path: Path) -> Dictionary:
    """Read fairseq's dictionary with `<mask>`, as tasks have it."""
    dictionary = Dictionary.load(str(path))
    dictionary.add_symbol(MASK)
    return dictionary
