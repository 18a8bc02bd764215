"""Random numbers of an update: independent of those of other updates, processes and seeds."""

from __future__ import annotations

import hashlib

from fairseq import utils
from fairseq.trainer import Trainer

from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import our_trainer


def update_seed(seed: int, update: int, rank: int) -> int:
    """A seed of 63 bits for an update of one process: a function of the three numbers alone, so that a run resumes."""
    digest = hashlib.blake2b(f"{seed} {update} {rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@mends(Trainer, "_set_seed", "self", only_for=our_trainer)
def seed_of_its_own(original):
    """fairseq takes `seed + update`: processes draw the same dropout, and seed 2 that of seed 1, one update later."""

    def _set_seed(self):
        utils.set_torch_seed(update_seed(self.cfg.common.seed, self.get_num_updates(), self.data_parallel_rank))

    return _set_seed
