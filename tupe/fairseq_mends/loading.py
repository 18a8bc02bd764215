"""fairseq reads checkpoints, and the configuration that rank 0 sends to the others, with `weights_only`."""

from __future__ import annotations

import collections
import typing

import torch
from fairseq import checkpoint_utils, distributed_utils
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch.serialization import safe_globals

from tupe.checkpoints.safe_load import fairseq_globals, safe_load
from tupe.errors import UserError
from tupe.fairseq_mends.mend import Overlay, mends

_BROADCAST_GLOBALS = (
    *(DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, distributed_utils._TensorPlaceholder),
    *(typing.Any, dict, list, int, collections.defaultdict),
)


def load(file, **options) -> dict:
    """`torch.load` as `fairseq.checkpoint_utils` sees it: for an opened checkpoint file, on the CPU, `weights_only`.

    Raises:
        UserError: as `safe_load`; or the file is no checkpoint of fairseq.
    """
    state = safe_load(file.name)
    missing = [key for key in ("model", "optimizer_history", "extra_state") if key not in state]
    if not state.get("cfg") and not state.get("args"):
        missing.append("cfg")
    if missing:
        raise UserError(f"{file.name} is not a checkpoint of fairseq, which has {', '.join(missing)}: give one that is")
    return state


# `load_checkpoint_to_cpu` leaves `weights_only` to PyTorch's default: below 2.6 that runs what the file says, from 2.6
# it refuses names that fairseq itself wrote.
checkpoint_utils.torch = Overlay(torch, load=load)


@mends(distributed_utils, "_broadcast_object_slow")
def broadcast_the_configuration(original):
    """Resuming on several ranks sends omegaconf objects through `torch.load`, which refuses them from PyTorch 2.6."""

    def _broadcast_object_slow(*args, **kwargs):
        with safe_globals([*fairseq_globals(), *_BROADCAST_GLOBALS]):
            return original(*args, **kwargs)

    return _broadcast_object_slow
