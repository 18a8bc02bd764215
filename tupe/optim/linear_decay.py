"""Linear warm-up, then linear decay to zero at the last update of a run given in updates or in epochs."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import math
from dataclasses import dataclass, field
from itertools import chain
from typing import Optional

from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II
from torch import nn

from tupe.optim.layer_decay import shares, split_groups
from tupe.systems import setting


@dataclass
class LinearDecayConfig(FairseqDataclass):
    warmup_updates: int = setting(0, "updates until the full learning rate is reached")
    warmup_ratio: float = setting(0.0, "warm-up as a fraction of the run, in [0, 1), if warmup_updates is 0")
    layer_decay: float = setting(1.0, "rate of a layer divided by the next one's, in (0, 1]; heads have the full rate")
    lr: list[float] = field(default=II("optimization.lr"))
    max_update: int = II("optimization.max_update")
    max_epoch: int = II("optimization.max_epoch")
    update_freq: list[int] = field(default=II("optimization.update_freq"))
    skip_remainder_batch: bool = II("optimization.skip_remainder_batch")


@register_lr_scheduler("linear_decay", dataclass=LinearDecayConfig)
class LinearDecaySchedule(FairseqLRScheduler):
    """After `u` of `T` updates, of which `W` are warm-up, the rate is `lr * min(u / W, (T - u) / (T - W))`.

    It equals fairseq's `polynomial_decay` with `warmup_updates = W` and `total_num_update = T`, but `T` need not be
    known: it is `max_update` or the updates of `max_epoch` epochs, whichever is less. The remaining updates are read
    from the training data's iterator at every update. So `T` stays right when gradients overflow, when the next epoch
    has another shard, and when a resumed run has another batch size or number of workers. The rate depends only on
    `u` and the iterator's position, so there is nothing to save. `layer_decay` gives the optimizer's groups fractions
    of the rate (`tupe.optim.layer_decay`); the logged rate is that of the heads.
    """

    def __init__(self, cfg: LinearDecayConfig, optimizer: FairseqOptimizer) -> None:
        super().__init__(cfg, optimizer)
        self.lr = cfg.lr[0]
        self.group_shares: list[float] = []
        self.max_update = cfg.max_update if cfg.max_update > 0 else math.inf
        # plain lists and numbers, because reading omegaconf at every update is slow
        self.max_epoch, self.update_freq = cfg.max_epoch, list(cfg.update_freq)
        self.skip_remainder_batch = cfg.skip_remainder_batch
        self.batches: Optional[EpochBatchIterator] = None

    def set_batches(self, batches: EpochBatchIterator) -> None:
        """Store the iterator over the training data, from which the length of the epochs is read."""
        self.batches = batches

    def group_parameters(self, model: nn.Module, criterion: nn.Module) -> None:
        """Group the optimizer's parameters by layer; fairseq passes only the optimizer to a schedule."""
        if self.cfg.layer_decay < 1:
            named = chain(model.named_parameters(), criterion.named_parameters())
            names = [name for name, p in named if p.requires_grad]
            self.group_shares = split_groups(self.optimizer, shares(names, self.cfg.layer_decay))
        self.step_update(0)

    def total_updates(self, num_updates: int) -> Optional[int]:
        """Return `T` after `num_updates` updates; None while the training data are not loaded."""
        if self.max_epoch <= 0:
            return self.max_update
        if self.batches is None:
            return None
        epoch = self.batches.epoch
        done = math.ceil(self.batches.iterations_in_epoch / self._update_freq(epoch))
        alike = max(epoch, len(self.update_freq))  # from this epoch on, all have the same number of updates
        left = sum(map(self._updates_in, range(epoch, min(alike, self.max_epoch + 1)))) - done
        left += self._updates_in(alike) * max(self.max_epoch + 1 - alike, 0)
        return min(num_updates + left, self.max_update)

    def step_update(self, num_updates: int) -> float:
        """Set and return the learning rate of the next update."""
        total = self.total_updates(num_updates)
        if total is not None:
            # whole updates, as in RoBERTa's recipes; a millionth is added because 0.29 * 100 is 28.999...
            warmup = self.cfg.warmup_updates or int(self.cfg.warmup_ratio * total + 1e-6)
            left = max(total - num_updates, 0) / max(total - warmup, 1)
            rate = self.lr * (num_updates / warmup if num_updates < warmup else left)
            self.optimizer.set_lr(rate)
            for group, share in zip(self.optimizer.param_groups, self.group_shares):
                group["lr"] = rate * share
        return self.optimizer.get_lr()

    def _update_freq(self, epoch: int) -> int:
        return self.update_freq[min(epoch, len(self.update_freq)) - 1]

    def _updates_in(self, epoch: int) -> int:
        """Count updates as fairseq's `GroupedIterator` does; every epoch is taken to be as long as the current one."""
        if self.skip_remainder_batch:  # the last batch is dropped, then the last group if it is not full
            return (len(self.batches) - 1) // self._update_freq(epoch)
        return math.ceil(len(self.batches) / self._update_freq(epoch))
