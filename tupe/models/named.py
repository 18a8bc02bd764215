"""Register named models at little cost: Hydra's configuration of a name is made at its first use."""

from contextlib import AbstractContextManager
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
        """Return the node itself: Hydra copies the whole store for each configuration, and each node that it loads."""
        return self


def _store(
    self: ConfigStore, name: str, node: Any, group: str, package: str | None = None, provider: str | None = None
) -> None:
    file = f"{name}.yaml"
    self.repo.setdefault(group, {})[file] = _LaterNode(file, node, group, package, provider)


def configured_later() -> AbstractContextManager:
    """Make Hydra's configuration of what fairseq registers in this block at its first use.

    fairseq makes it at once for every model, some 200 of 60 fields, which took two thirds of the plugin's import.
    """
    return replaced(ConfigStore, "store", _store)
