"""Symbols and rows in the order of fairseq's dictionaries: by their roles, then as they were, `<mask>` last.

`masked_lm`, the classification tasks, the segments and the hub expect `<s> <pad> </s> <unk>` at 0 to 3. RoBERTa and
XLM-R have them there; BERT has `[CLS]` at 101.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fairseq.data import Dictionary
from torch import Tensor

from tupe.checkpoints.foreign.names import LM_HEAD, OUTPUT, WORDS
from tupe.data.tokenizers import FAIRSEQ_SYMBOLS, MASK
from tupe.patches.checkpoints import read_dictionary
from tupe.util import UserError

FILLER = "madeupword"  # fairseq's own name of symbols that round up the size of a table
SPECIAL = (*FAIRSEQ_SYMBOLS, MASK)


class Vocabulary(NamedTuple):
    """A vocabulary in this plugin's order: the symbols, and the original row of each."""

    symbols: list[str]
    rows: list[int]


def by_role(symbols: Sequence[str | None], roles: Mapping[str, int]) -> Vocabulary:
    """Order the rows of a table, whose `symbols` may lack names; `roles` are the rows of the five special symbols.

    A row without a name is filled up, and so is one that is called like a special symbol but does not have its role, or
    whose name another row has too: text never has it.
    """
    last = {symbol: row for row, symbol in enumerate(symbols)}  # as fairseq looks a repeated symbol up
    fillers = (name for name in map(f"{FILLER}{{:04d}}".format, itertools.count()) if name not in last)
    kept = [row for row in range(len(symbols)) if row not in roles.values()]
    names = [
        next(fillers) if symbols[row] in (None, *SPECIAL) or last[symbols[row]] != row else symbols[row] for row in kept
    ]
    rows = [*(roles[name] for name in FAIRSEQ_SYMBOLS), *kept, roles[MASK]]
    return Vocabulary([*FAIRSEQ_SYMBOLS, *names, MASK], rows)


def reorder(weights: dict[str, Tensor], rows: list[int]) -> None:
    """Reorder a tensor that has a row for each symbol."""
    for name in (WORDS, OUTPUT, LM_HEAD + "bias"):
        if name in weights:
            weights[name] = weights[name][rows]


def write_dictionary(path: Path, symbols: Sequence[str]) -> Dictionary:
    """Write `dict.txt` of these symbols, the special ones among them, which fairseq adds itself.

    Returns:
        the dictionary that fairseq reads there.

    Raises:
        UserError: a symbol that such a file cannot contain, because all later numbers would change.
    """
    listed = "".join(f"{symbol} 1\n" for symbol in symbols if symbol not in SPECIAL)
    path.write_text(listed, encoding="utf-8", newline="\n")
    found = read_dictionary(path)
    if found.symbols != symbols:
        wrong = next((a for a, b in zip(symbols, found.symbols) if a != b), symbols[-1])
        raise UserError(f"The symbol {wrong!r:.60} cannot be in a dictionary of fairseq.")
    return found
