"""Data of many languages: a folder for each, called by its code, and how often each is drawn."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tupe.errors import UserError

_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


def is_language(name: str) -> bool:
    """Tell whether a name is a code as Wikipedia, XTREME and XLM-R have them: `de`, `ceb`, `zh-Hant`, `zh_yue`."""
    return _CODE.fullmatch(name) is not None


def languages(folder: Path, chosen: str | None = None) -> list[str]:
    """List the languages that folders in `folder` are called by, sorted; of `chosen`, such as `de,en`, those alone.

    Raises:
        UserError: if there is none, or not one of those that were chosen.
    """
    there = sorted(path.name for path in folder.glob("*") if is_language(path.name) and path.is_dir())
    if not there:
        raise UserError(
            f"{folder} has no folder that is called by a language, as {folder / 'de'}: prepare it by `tupe "
            "prepare-corpus OUT de=FILE fr=FILE ...`, or set the task masked_lm."
        )
    found = there if chosen is None else sorted(set(chosen.replace(",", " ").split()))
    missing = [language for language in found if language not in there]
    if missing or not found:
        raise UserError(
            f"task.langs={chosen} names {missing[0] if missing else 'nothing'}, but {folder} has {', '.join(there)}."
        )
    return found


def probabilities(sizes: Sequence[float], alpha: float) -> np.ndarray:
    """Compute how often each language is drawn, `p_l ~ n_l^alpha` (mBERT, XLM, XLM-R): by size with 1, alike with 0.

    Raises:
        UserError: for an exponent that is not from 0 to 1.
    """
    if not 0 <= alpha <= 1:
        raise UserError(f"the exponent of the sampling of languages is {alpha}: it must be between 0 and 1.")
    smoothed = (np.asarray(sizes, dtype=np.float64) / max(sizes)) ** alpha
    return smoothed / smoothed.sum()
