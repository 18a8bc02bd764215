"""Data in many languages: a folder for each, and the probability with which each is sampled."""

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


def languages(folder: Path, chosen: str | None = None) -> list[str]:
    """List the folders in `folder` that have training data, sorted; or only `chosen`, such as `de,en`."""
    if chosen is not None:
        return sorted(set(chosen.replace(",", " ").split()))
    return sorted(path.parent.name for path in folder.glob("*/train.bin") if path.stat().st_size)


def probabilities(sizes: Sequence[float], alpha: float) -> np.ndarray:
    """Compute the sampling probabilities `p_l ~ n_l^alpha` (mBERT, XLM, XLM-R): by size with 1, equal with 0."""
    smoothed = (np.asarray(sizes, dtype=np.float64) / max(sizes)) ** alpha
    return smoothed / smoothed.sum()
