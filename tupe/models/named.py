"""Registering named models costs little: Hydra's configuration of a name is made when it is asked for."""

import contextlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import DictConfig, OmegaConf

from tupe.fairseq_patches.patching import replaced


class _LaterNode(ConfigNode):
    """A node of Hydra's store that knows a dataclass, and makes a configuration of it at the first use."""

    def __init__(self, name: str, given: Any, group: str, package: str | None, provider: str | None) -> None:
        self.name, self.group, self.package, self.provider = name, group, package, provider
        self._given = given

    @cached_property
    def node(self) -> DictConfig:
        return OmegaConf.structured(self._given)

    def __deepcopy__(self, memo: dict) -> "_LaterNode":
        """Return itself: Hydra copies the whole store for each configuration, and a node again when it loads it."""
        return self


def _store(
    self: ConfigStore, name: str, node: Any, group: str, package: str | None = None, provider: str | None = None
) -> None:
    file = f"{name}.yaml"
    self.repo.setdefault(group, {})[file] = _LaterNode(file, node, group, package, provider)


@contextlib.contextmanager
def configured_later() -> Iterator[None]:
    """Let what fairseq registers in this block be configured when it is asked for.

    fairseq makes Hydra's configuration of every model, some 200 of 60 fields, in each process that imports the plugin:
    two thirds of the time of that import.
    """
    with replaced(ConfigStore, "store", _store):
        yield
