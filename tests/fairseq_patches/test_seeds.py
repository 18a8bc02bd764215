import itertools
from types import SimpleNamespace

import torch
from fairseq.trainer import Trainer

from tupe.fairseq_patches.trainer import TupeTrainer, update_seed


def drawn(trainer, seed, update, rank):
    self = SimpleNamespace(
        cfg=SimpleNamespace(common=SimpleNamespace(seed=seed)), get_num_updates=lambda: update, data_parallel_rank=rank
    )
    trainer._set_seed(self)
    return torch.rand(4).tolist()


def test_every_update_of_every_process_and_seed_draws_its_own():
    where = list(itertools.product((1, 2, 3), range(9, 12), range(3)))
    numbers = [drawn(TupeTrainer, *place) for place in where]
    assert len({tuple(row) for row in numbers}) == len(where)
    assert numbers == [drawn(TupeTrainer, *place) for place in where]  # as a resumed run does
    assert len({update_seed(*place) for place in where}) == len(where)
    assert all(0 <= update_seed(*place) < 2**63 for place in where)


def test_other_runs_draw_as_fairseq_does():
    assert drawn(Trainer, 2, 9, 0) == drawn(Trainer, 1, 10, 1)
