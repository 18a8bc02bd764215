"""Models out of checkpoints, with the dictionaries of their data, as fairseq builds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from torch import nn

import tupe.models  # noqa: F401  fairseq builds a model by its name
from tupe.errors import UserError


def load_models(
    checkpoints: list[Path], data: Path, state: Optional[dict[str, Any]] = None, **settings: int
) -> tuple[list[nn.Module], FairseqTask]:
    """The models in some checkpoints, on the CPU, and their task.

    Args:
        checkpoints: whose configurations were checked.
        data: folder with the dictionaries.
        state: what the one checkpoint holds, where that is not in its file.
        settings: of the task, other than the checkpoints'.

    Raises:
        UserError: if a dictionary is damaged, or the weights do not fit it or the configuration.
    """
    names = [str(path) for path in checkpoints]
    try:
        overrides = {"data": str(data), **settings}
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(names, overrides, state=state)
    except UserError:
        raise
    except Exception as error:  # PyTorch's, of weights that do not fit; fairseq's own, of a damaged dictionary
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"{', '.join(names)} cannot be loaded with the data {data}: {reason!r}.") from error
    return models, task
