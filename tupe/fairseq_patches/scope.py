"""Scope of the patches: models, tasks and criterions of this plugin, and what serves a run of theirs.

A run is ours if its model, task or criterion is. Its task learns that when it builds them, and hands it on to its data
sets; other runs in the same process are fairseq's alone.
"""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from tupe.position.registry import registered_folders

_FOLDER = Path(__file__).resolve().parents[1]
_PACKAGE = __name__.partition(".")[0]
#: The attribute of objects that were told by `task.put_in_scope`.
MARK = "_serves_tupe"
#: Part of a configuration -> name -> class.
REGISTERED: dict[str, tuple[dict[str, type], ...]] = {
    "model": (ARCH_MODEL_REGISTRY, MODEL_REGISTRY),
    "task": (TASK_REGISTRY,),
    **{kind: (REGISTRIES[kind]["registry"],) for kind in ("criterion", "optimizer", "lr_scheduler")},
}


def in_scope(*parts: Any) -> bool:
    """Tell whether one of some classes or objects is of this plugin, derives from it, or was put in its scope."""
    kinds = [part if isinstance(part, type) else type(part) for part in parts]
    ours = (base.__module__.partition(".")[0] == _PACKAGE for kind in kinds for base in kind.__mro__)
    return any(MARK in getattr(part, "__dict__", ()) for part in parts) or any(ours)


def chosen(kind: str, cfg: Any) -> type | None:
    """Return the class that a part of the configuration names; `kind` is one of `REGISTERED`."""
    if isinstance(cfg, str):
        name = cfg
    else:
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch" if kind == "model" else kind, None)
    registries = REGISTERED[kind]
    return next((registry[name] for registry in registries if isinstance(name, str) and name in registry), None)


def config_in_scope(cfg: Any) -> bool:
    """Tell whether a configuration, or parsed arguments, are of a run of ours.

    Without a model, or with the path of a checkpoint, as in `fairseq-validate`, the checkpoint says what it is: then
    it is ours if `user_dir` is. (The arguments of `fairseq-generate`, which have a beam, name a model that it does not
    use.)
    """
    parts = {"model": "arch"} if isinstance(cfg, Namespace) else {}
    named = {kind: getattr(cfg, parts.get(kind, kind), None) for kind in ("model", "task", "criterion")}
    if in_scope(*(found for kind, part in named.items() if (found := chosen(kind, part)) is not None)):
        return True
    user_dir = getattr(getattr(cfg, "common", cfg), "user_dir", None)
    evaluates = getattr(getattr(cfg, "common_eval", cfg), "path", None) is not None or hasattr(cfg, "beam")
    return (
        (named["model"] is None or evaluates)
        and user_dir is not None
        and Path(os.path.abspath(user_dir)).resolve() in (_FOLDER, *registered_folders())
    )
