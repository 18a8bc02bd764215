"""Random numbers of an update: independent of those of other updates, processes and seeds."""

import hashlib


def update_seed(seed: int, update: int, rank: int) -> int:
    """A seed of 63 bits for an update of one process: a function of the three numbers alone, so that a run resumes."""
    digest = hashlib.blake2b(f"{seed} {update} {rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
