"""fairseq reads checkpoints, and the configuration that rank 0 sends to the others, with `weights_only`."""

import collections
import contextlib
import typing
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from fairseq import checkpoint_utils, distributed_utils
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.nodes import AnyNode
from torch.serialization import safe_globals

from tupe.errors import UserError
from tupe.fairseq_patches.patching import overlay, patch, patched, patches, put
from tupe.fairseq_patches.scope import chosen, in_scope
from tupe.position.registry import refuse_unregistered
from tupe.safe_load import check_finite, fairseq_globals, safe_load

_BROADCAST_GLOBALS = (
    *(DictConfig, ListConfig, ContainerMetadata, Metadata, AnyNode, distributed_utils._TensorPlaceholder),
    *(typing.Any, dict, list, int, collections.defaultdict),
)


_OPENED: ContextVar[Mapping[str, dict[str, Any]] | None] = ContextVar("opened checkpoints", default=None)


@contextlib.contextmanager
def opened(states: Mapping[str, dict[str, Any]]) -> Iterator[None]:
    """While it lasts, fairseq takes what these files hold from `states`, by path, and does not read them again."""
    token = _OPENED.set(states)
    try:
        with patched():
            yield
    finally:
        _OPENED.reset(token)


def load(file, **options) -> dict:
    """`torch.load` as `fairseq.checkpoint_utils` sees it: for an opened checkpoint file, on the CPU, `weights_only`.

    For every checkpoint, because whose it is stands in the file. What fairseq wrote without code loads as ever.

    Raises:
        UserError: as `safe_load`.
    """
    state = (_OPENED.get() or {}).get(file.name)
    if state is None:
        return safe_load(file.name)
    return {**state, "model": {**state["model"]}}  # fairseq and the models change names in both


@patch
def checkpoints_are_read_without_code() -> None:
    """fairseq leaves `weights_only` to PyTorch's default: below 2.6 that runs what the file says, from 2.6 it refuses
    names that fairseq itself wrote.
    """
    overlay(checkpoint_utils, "torch", "load_ema_from_checkpoint", load=load)
    put(checkpoint_utils, "torch", overlay(checkpoint_utils, "torch", "load_checkpoint_to_cpu", load=load))


@patches(checkpoint_utils, "load_checkpoint_to_cpu", "path")
def checkpoint_is_whole(original):
    """A `dict` that is no checkpoint fails in fairseq, or later; old checkpoints, which it upgrades, do not."""

    def load_checkpoint_to_cpu(path, *args, **kwargs):
        try:
            state = original(path, *args, **kwargs)
        except (AttributeError, KeyError, TypeError) as error:
            raise _no_checkpoint(path, safe_load(path)) or error from error
        cfg = state.get("cfg")
        if cfg:
            _check_terms(path, cfg.get("model"))
        if (not cfg and not state.get("args")) or (cfg and in_scope(chosen("model", cfg.get("model")))):
            error = _no_checkpoint(path, state)
            if error is not None:
                raise error
        if cfg and in_scope(chosen("model", cfg.get("model"))):
            check_finite(state["model"], path)  # training that goes on from NaN computes nothing else
        return state

    return load_checkpoint_to_cpu


def _check_terms(path, model) -> None:
    """Terms that nobody has registered are otherwise a traceback of omegaconf's."""
    known = MODEL_DATACLASS_REGISTRY.get(getattr(model, "_name", None))
    if known is not None and in_scope(chosen("model", model)):
        refuse_unregistered(path, known, lambda side: getattr(model, side, None))


def _no_checkpoint(path, state: dict) -> UserError | None:
    missing = [key for key in ("model", "optimizer_history", "extra_state") if key not in state]
    if not state.get("cfg") and not state.get("args"):
        missing.append("cfg")
    if not missing:
        return None
    return UserError(f"{path} is not a checkpoint of fairseq, which has {', '.join(missing)}: give one that is")


@patches(distributed_utils, "_broadcast_object_slow", "obj src_rank")
def broadcast_the_configuration(original):
    """Resuming on several ranks sends omegaconf objects through `torch.load`, which refuses them from PyTorch 2.6.

    For every run: it allows names that otherwise end it.
    """

    def _broadcast_object_slow(*args, **kwargs):
        with safe_globals([*fairseq_globals(), *_BROADCAST_GLOBALS]):
            return original(*args, **kwargs)

    return _broadcast_object_slow
