"""Symbols and rows in the order of fairseq's dictionaries: by their roles, then as they were, `<mask>` last.

`masked_lm`, the classification tasks, the segments and the hub expect `<s> <pad> </s> <unk>` at 0 to 3. RoBERTa and
XLM-R have them there; BERT has `[CLS]` at 101, and CamemBERT's dictionary repeats them, so that `<s>` is at 5.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from tupe.checkpoints.foreign.names import LM_HEAD, OUTPUT, WORDS
from tupe.data.corpus.vocabulary import FAIRSEQ_SYMBOLS, MASK
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import read_dictionary
from tupe.files import atomic

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


def by_role(source: Source, rows: int, of: Path) -> Vocabulary:
    """Order the symbols of a table of so many `rows`, which the file `of` holds.

    Raises:
        UserError: if a special symbol has no row, two have the same, or there are fewer rows than symbols.
    """
    symbols, roles = source.symbols, source.roles
    lacking = [name for name in SPECIAL if name not in roles]
    if lacking:
        raise UserError(f"{source.path} has no symbol for {lacking[0]}, which every dictionary of fairseq needs")
    if len(set(roles.values())) < len(SPECIAL):
        raise UserError(f"{source.path} has one symbol for several of {', '.join(SPECIAL)}: {roles}")
    if rows < len(symbols):
        raise UserError(
            f"{source.path} has {len(symbols):,} symbols, but {of} has rows for {rows:,}: give the files of one model"
        )
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


def write_dictionary(path: Path, symbols: Iterable[str]) -> None:
    """Write `dict.txt` of these symbols, the special ones among them, which fairseq adds itself.

    Raises:
        UserError: for a symbol that fairseq would not read again.
    """
    symbols = list(symbols)
    listed = [symbol for symbol in symbols if symbol not in SPECIAL]
    broken = next((symbol for symbol in listed if not symbol or set(symbol) & {"\n", "\r"}), None)
    if broken is not None:
        raise UserError(f"the symbol {broken!r:.60} cannot stand in a dictionary of fairseq: it is not imported")
    with atomic(path) as unfinished:
        unfinished.write_text("".join(f"{symbol} 1\n" for symbol in listed), encoding="utf-8", newline="\n")
        found = read_dictionary(unfinished, "tupe import").symbols
        if found != symbols:
            wrong = next((a for a, b in zip(symbols, found) if a != b), symbols[-1])
            raise UserError(f"the symbol {wrong!r:.60} cannot stand in a dictionary of fairseq: it is not imported")
