"""Choose fp16 or bf16 for a training on GPUs that asks for 16 bits, and keep a training's precision in its folder."""

from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig

from tupe.cores import PRECISION
from tupe.errors import UserError
from tupe.files import read_text, write_bytes

#: Fields of `common` with which a training computes in 16 bits.
HALVES = ("fp16", "bf16", "memory_efficient_fp16", "memory_efficient_bf16", "amp")
#: What a folder keeps, and the fields of `common` that it stands for in a configuration that asks for fp16.
_VALUES = {
    "fp16": {},
    "bf16": {"fp16": False, "bf16": True},
    "amp": {"fp16": False, "amp": True},
    "fp32": {"fp16": False},
}
_TRUE = ("true", "yes", "y", "on", "1")  # as Hydra and OmegaConf read them


def bits_of(cfg: DictConfig) -> int:
    """Return the width of the numbers in which a training computes, 16 or 32 bits."""
    return 16 if any(cfg.common[half] for half in HALVES) else 32


class Choice(NamedTuple):
    name: str | None  # a key of `_VALUES`; None where nothing was chosen
    values: dict[str, bool]  # fields of `common` to set beside what was given
    why: str

    @property
    def overrides(self) -> list[str]:
        """Return `values` as words for Hydra."""
        return [f"common.{key}={str(value).lower()}" for key, value in self.values.items()]

    def keep(self, folder: Path) -> None:
        """Write the precision into the folder of the training."""
        if self.name is not None:
            write_bytes(folder / PRECISION, f"{self.name}\n".encode())


def choose(folder: Path, overrides: list[str], fp16: bool = True) -> Choice:
    """Choose the precision of a training on this machine's GPUs, whose checkpoints are in `folder`.

    A precision on the command line (`overrides`) is taken, and kept. Without one, where the configuration asks for
    fp16, a training that resumes keeps what it began with, and one that begins takes bf16 if every GPU has it.

    Raises:
        UserError: if the folder's file holds no precision.
    """
    given = _given(overrides)
    if given:
        values = {}
        if fp16 and "fp16" not in given and any(given.get(key) for key in ("bf16", "amp", "memory_efficient_bf16")):
            values["fp16"] = given["fp16"] = False  # they exclude each other
        return Choice(_name({"fp16": fp16, **given}), values, "as given")
    if not fp16:
        return Choice(None, {}, "as the configuration says")
    name, why = _kept(folder) or _of_gpus()
    return Choice(name, _VALUES[name], why)


def _given(overrides: list[str]) -> dict[str, bool]:
    """Return the overrides of `HALVES`; the last one of a field counts, as in Hydra."""
    given = {}
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        group, _, field = key.partition(".")
        if group == "common" and field in HALVES:
            given[field] = value.strip("'\" ").lower() in _TRUE
    return given


def _name(given: dict[str, bool]) -> str:
    """Return the name of the precision that fields of `common` make."""
    for name, keys in (("bf16", ("bf16", "memory_efficient_bf16")), ("amp", ("amp",)), ("fp16", HALVES)):
        if any(given.get(key) for key in keys):
            return name
    return "fp32"


def _kept(folder: Path) -> tuple[str, str] | None:
    """Return the precision that the training in `folder` began with, and how that is known; None if none has begun."""
    path = folder / PRECISION
    if path.is_file():
        name = read_text(path, "the first start of the training").strip()
        if name not in _VALUES:
            raise UserError(
                f"{path} holds {name!r:.40}, which is none of {', '.join(_VALUES)}: write there what the run began with"
            )
        return name, "as this run began"
    if any(folder.glob("checkpoint*.pt")):  # begun by version 0.1, or by fairseq's own command
        return "fp16", "as the configuration says, because this run began before bf16 was chosen by itself"
    return None


def _of_gpus() -> tuple[str, str]:
    """Return the better precision for the GPUs that PyTorch sees: bf16 needs no loss scale, and Ampere or later."""
    count = torch.cuda.device_count()
    if count and all(torch.cuda.get_device_capability(gpu) >= (8, 0) for gpu in range(count)):
        return "bf16", "because every GPU here is an Ampere or later; common.fp16=true chooses fp16"
    return "fp16", "because not every GPU here is an Ampere or later"
