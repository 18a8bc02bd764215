"""What the mends act on: models, tasks and criterions of this plugin, and what serves a run of theirs.

A run is ours if its model, task or criterion is. Its task learns that when it builds them, and hands it on to its data
sets; other runs in the same process are fairseq's alone.
"""

from __future__ import annotations

import inspect
import os
from argparse import Namespace
from pathlib import Path
from typing import Any, Callable, Optional

from fairseq import criterions, models
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from fairseq.trainer import Trainer

from tupe.fairseq_mends.mend import mends
from tupe.position.own import own_folders

_FOLDER = Path(__file__).resolve().parents[1]
_PACKAGE = __name__.partition(".")[0]
_MARK = "_serves_tupe"


def ours(*parts: Any) -> bool:
    """Whether one of some classes or objects is of this plugin, derives from what is, or was told that it serves it."""
    return any(
        _MARK in getattr(part, "__dict__", ())
        or any(base.__module__.partition(".")[0] == _PACKAGE for base in inspect.getmro(_class(part)))
        for part in parts
    )


def serve(part: Any) -> None:
    """Tells an object that it takes part in a run of ours."""
    if part is not None:
        setattr(part, _MARK, True)


def of_ours(self: Any, *args: Any, **kwargs: Any) -> bool:
    """For `mends(only_for=...)` on a method: the object itself is ours."""
    return ours(self)


def our_trainer(self: Trainer, *args: Any, **kwargs: Any) -> bool:
    """For `mends(only_for=...)` on a method of `Trainer`."""
    return ours(self.task)


def chosen(kind: str, cfg: Any) -> Optional[type]:
    """The class that a part of the configuration names; `kind` is model, task, criterion or lr_scheduler."""
    if isinstance(cfg, str):
        name = cfg
    else:
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch" if kind == "model" else kind, None)
    registries = {
        "model": (ARCH_MODEL_REGISTRY, MODEL_REGISTRY),
        "task": (TASK_REGISTRY,),
        "criterion": (REGISTRIES["criterion"]["registry"],),
        "lr_scheduler": (LR_SCHEDULER_REGISTRY,),
    }[kind]
    return next((registry[name] for registry in registries if isinstance(name, str) and name in registry), None)


def builds_ours(cfg: Any, *args: Any, **kwargs: Any) -> bool:
    """For `mends(only_for=...)` on `models.build_model`."""
    return ours(chosen("model", cfg))


def our_configuration(cfg: Any) -> bool:
    """Whether a configuration, or parsed arguments, are of a run of ours.

    Without a model, as in `fairseq-validate`, the checkpoint will say what it is: then it is ours if `user_dir` is.
    """
    parts = {"model": "arch"} if isinstance(cfg, Namespace) else {}
    named = {kind: getattr(cfg, parts.get(kind, kind), None) for kind in ("model", "task", "criterion")}
    if ours(*(found for kind, part in named.items() if (found := chosen(kind, part)) is not None)):
        return True
    user_dir = getattr(getattr(cfg, "common", cfg), "user_dir", None)
    return (
        named["model"] is None
        and user_dir is not None
        and Path(os.path.abspath(user_dir)).resolve() in (_FOLDER, *own_folders())
    )


def before_training(prepare: Callable) -> Callable:
    """Decorator: `prepare(cfg, task, model)` is called before a `Trainer` of ours is made."""

    def around(original: Callable) -> Callable:
        def __init__(self, cfg, task, model, criterion, *args, **kwargs):
            serve(task)
            if isinstance(cfg, Namespace):
                cfg = convert_namespace_to_omegaconf(cfg)
            prepare(cfg, task, model)
            original(self, cfg, task, model, criterion, *args, **kwargs)

        return __init__

    around.__module__, around.__qualname__ = prepare.__module__, prepare.__qualname__
    mends(
        Trainer, "__init__", "self cfg task model criterion",
        only_for=lambda self, cfg, task, model, criterion, *args, **kwargs: ours(task, model, criterion),
    )(around)  # fmt: skip
    return prepare


def tells_the_task(original: Callable) -> Callable:
    """A task that builds a model or criterion of ours serves it."""

    def build(cfg, task, *args, **kwargs):
        serve(task)
        return original(cfg, task, *args, **kwargs)

    return build


mends(models, "build_model", "cfg task", only_for=builds_ours)(tells_the_task)
mends(
    criterions, "build_criterion", "cfg task", only_for=lambda cfg, *args, **kwargs: ours(chosen("criterion", cfg))
)(tells_the_task)  # fmt: skip


def _class(part: Any) -> type:
    return part if isinstance(part, type) else type(part)
