"""Choose the documents held out for validation: whole documents, never lines of a training document."""

import numpy as np

from tupe.util import UserError


def choose(hashes: np.ndarray, repeated: np.ndarray, number: int | float) -> np.ndarray:
    """Mark the documents to hold out: those with the smallest hashes, so their order in the inputs does not matter.

    `hashes` (`uint64`) has one a document, and `repeated` marks documents that are dropped anyway. `number` says how
    many to hold out, or as a float their share, which is at least one document unless it is 0.

    Raises:
        UserError: if nothing would be left for training.
    """
    new = np.flatnonzero(~repeated)
    held = max(round(number * len(new)), int(number > 0)) if isinstance(number, float) else number
    if held >= len(new):
        raise UserError(
            f"{held} of {len(new)} different documents cannot be held out for validation. Set --valid-documents lower, "
            "or separate documents by empty lines (or use --books)."
        )
    valid = np.zeros(len(hashes), dtype=bool)
    valid[new[np.argsort(hashes[new], kind="stable")[:held]]] = True
    return valid
