"""Data of many languages: a folder for each, called by its code, and how often each is drawn."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

#: The languages of XTREME's test sets, by their folder (Hu et al., 2020); XQuAD's Romanian came later.
TEST_LANGUAGES = {
    "XNLI": ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"),
    "XQuAD": ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh"),
    "MLQA": ("ar", "de", "en", "es", "hi", "vi", "zh"),
    "TyDiQA": ("ar", "bn", "en", "fi", "id", "ko", "ru", "sw", "te"),
}

# as Wikipedia, XTREME and XLM-R have them: `de`, `ceb`, `zh-Hant`, `zh_yue`
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


def languages(folder: Path, chosen: str | None = None) -> list[str]:
    """List the languages that folders in `folder` are called by, sorted; or only `chosen`, such as `de,en`."""
    if chosen is not None:
        return sorted(set(chosen.replace(",", " ").split()))
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and _CODE.fullmatch(path.name))


def probabilities(sizes: Sequence[float], alpha: float) -> np.ndarray:
    """Compute how often each language is drawn, `p_l ~ n_l^alpha` (mBERT, XLM, XLM-R): by size with 1, alike with 0."""
    smoothed = (np.asarray(sizes, dtype=np.float64) / max(sizes)) ** alpha
    return smoothed / smoothed.sum()
