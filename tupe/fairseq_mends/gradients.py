"""Gradients of several processes, where the batches of an epoch do not divide evenly among them."""

from __future__ import annotations

import torch
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import of_ours, our_trainer


@mends(Trainer, "train_step", "self samples", only_for=our_trainer)
def dummies_come_first(original):
    """A process that has no batch left computes a dummy, and fairseq asks of the last batch alone whether it is one.

    If so it takes the whole process for idle: with accumulated gradients, the batches before it count in the gradient
    and neither in the sample size that divides it nor in the log.
    """

    def train_step(self, samples, *args, **kwargs):
        return original(self, sorted(samples, key=bool), *args, **kwargs)

    return train_step


@mends(FairseqTask, "train_step", "self sample model criterion optimizer update_num ignore_grad", only_for=of_ours)
def dummies_count_nothing(original):
    """Of a batch whose gradient is ignored, sample size and log are zero."""

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False, **kwargs):
        loss, size, log = original(self, sample, model, criterion, optimizer, update_num, ignore_grad, **kwargs)
        if ignore_grad:
            size, log = _zero(size), {key: _zero(value) for key, value in log.items()}
        return loss, size, log

    return train_step


def _zero(value):
    return torch.zeros_like(value) if torch.is_tensor(value) else type(value)(0)
