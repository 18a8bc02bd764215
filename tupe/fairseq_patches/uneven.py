"""Several processes, where the batches of an epoch do not divide evenly among them."""

import torch
from fairseq import distributed_utils

from tupe.fairseq_patches.patching import patches


def dummies_first(samples: list[dict]) -> list[dict]:
    """Put the dummies, which a process computes that has no batch left, before the batches of an update.

    fairseq asks of the last batch alone whether it is a dummy. If so it takes the whole process for idle: with
    accumulated gradients, the batches before it count in the gradient and neither in the sample size that divides it
    nor in the log.
    """
    return sorted(samples, key=bool)


@patches(
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


def zero(value):
    """A zero of the type of a tensor or number."""
    return torch.zeros_like(value) if torch.is_tensor(value) else type(value)(0)
