"""Several processes, where the batches of an epoch do not divide evenly among them."""

from __future__ import annotations

import torch
from fairseq import distributed_utils
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from tupe.errors import UserError
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


@mends(FairseqTask, "valid_step", "self sample model criterion", only_for=of_ours)
def nothing_is_left_to_validate(original):
    """`fairseq-validate` gives a process without a batch an empty one: it repeats its last, which counts nothing.

    Raises:
        UserError: in a process that never had one.
    """

    def valid_step(self, sample, model, criterion, **kwargs):
        if sample:
            self.validated_last = sample
            return original(self, sample, model, criterion, **kwargs)
        if not hasattr(self, "validated_last"):
            raise UserError("there are fewer batches than processes: lower --batch-size or start fewer processes")
        loss, size, log = original(self, self.validated_last, model, criterion, **kwargs)
        return _zero(loss), _zero(size), {key: _zero(value) for key, value in log.items()}

    return valid_step


@mends(
    distributed_utils, "all_gather_list", "data group", only_for=lambda *args, **kwargs: not torch.cuda.is_available()
)
def gathers_on_the_cpu(original):
    """For every run: without a GPU fairseq fails here, because it asks for a GPU's memory."""

    def all_gather_list(data, group=None, max_size=None):
        group = distributed_utils.get_global_group() if group is None else group
        gathered = [None] * distributed_utils.get_world_size(group)
        torch.distributed.all_gather_object(gathered, data, group=group)
        return gathered

    return all_gather_list


def _zero(value):
    return torch.zeros_like(value) if torch.is_tensor(value) else type(value)(0)
