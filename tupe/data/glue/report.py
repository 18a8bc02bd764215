"""A warning where a split is the training data."""

from collections.abc import Iterator
from typing import Any


def same_as_training(checksums: dict[str, Any]) -> Iterator[str]:
    """Warn of each split whose files hold what the training file holds."""
    for split, checksum in checksums.items():
        if split != "train" and checksum == checksums.get("train"):
            yield f"warning: the {split} data are the training data: scores on them say nothing of other texts"
