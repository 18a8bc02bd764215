"""One run of a sweep: where it lies, whether it is finished, and why it failed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Optional

#: What the TUPE paper runs (section 4.1): every task with every learning rate and seed.
TASKS = ("MNLI", "QNLI", "QQP", "SST-2", "CoLA", "MRPC", "RTE", "STS-B", "WNLI")
LEARNING_RATES = (2e-5, 3e-5, 4e-5, 5e-5)
SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Run:
    """A task fine-tuned with a learning rate and a seed."""

    task: str
    lr: float
    seed: int

    @property
    def folder(self) -> Path:
        """Where the run lies in the folder of its sweep."""
        return Path(self.task, f"lr_{self.lr:g}", f"seed_{self.seed}")

    def __str__(self) -> str:
        return f"{self.task}, lr {self.lr:g}, seed {self.seed}"


def grid(tasks: list[str], lrs: list[float], seeds: list[int]) -> list[Run]:
    """All combinations."""
    return [Run(*combination) for combination in product(tasks, lrs, seeds)]


def result(folder: Path) -> Optional[dict[str, Any]]:
    """What `result.json` of a finished run holds; None for a run that is not finished, or whose file is damaged."""
    content = _read(folder / "result.json")
    return content if content is not None and "score" in content else None


def failure(folder: Path) -> Optional[str]:
    """Why a run failed; None for one that did not."""
    return (_read(folder / "failed.json") or {}).get("reason")


def _read(path: Path) -> Optional[dict[str, Any]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
