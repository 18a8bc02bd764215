"""Open checkpoints: each file is read once, and its configuration checked, before a model is built from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

import tupe.models  # noqa: F401  fairseq builds a model by its name
from tupe.fairseq_patches.checkpoints import labels_sha256, opened, refuse_other_labels
from tupe.models.checkpoint_config import saved_config
from tupe.models.config import TupeConfig
from tupe.models.heads import HEADS
from tupe.safe_load import safe_load
from tupe.util import UserError


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of an encoder or an ELECTRA of this plugin."""

    path: Path  # of the file
    state: dict[str, Any]  # all that the file holds, tensors on the CPU
    config: TupeConfig  # with `max_positions` filled in

    def __str__(self) -> str:
        """Return the path, as messages name a checkpoint."""
        return str(self.path)

    @property
    def updates(self) -> int:
        """The number of updates that the model was trained for, 0 where the file does not say."""
        history = self.state.get("optimizer_history") or [{}]
        return history[-1].get("num_updates", 0)

    @property
    def task(self) -> dict[str, Any]:
        """The saved configuration of the task."""
        return self.state["cfg"].get("task") or {}

    @property
    def weights(self) -> dict[str, Tensor]:
        """The parameters of the model by name."""
        return self.state["model"]

    def check_classes(self, data: Path) -> None:
        """Compare the classes of a prepared task, and their order, with those that the model was fine-tuned with.

        A training leaves their checksum in the checkpoint, and `tupe import` the labels beside it. Where neither is
        found, nothing is compared.

        Raises:
            UserError: they differ.
        """
        now, beside = (folder / "label/dict.txt" for folder in (data, self.path.parent))
        trained = "none" if self.task.get("regression_target") else self.task.get("labels_sha256")
        if trained is None and beside.is_file():
            trained = labels_sha256(Dictionary.load(str(beside)))
        if now.is_file():
            refuse_other_labels(trained, Dictionary.load(str(now)), self.path, data)

    def model(self, data: Path, **settings: int) -> tuple[nn.Module, FairseqTask]:
        """Build the model on the CPU, and its task with `settings` replaced; `data` has the dictionaries.

        Raises:
            UserError: the file lacks a head that the task needs, which would predict at random.
        """
        cfg = {**self.state["cfg"], "task": {**self.task, **settings}}
        (model,), task = load_models({self.path: {**self.state, "cfg": cfg}}, data)
        for name, built in model.state_dict().items():
            if name.startswith(HEADS) and (name not in self.weights or self.weights[name].shape != built.shape):
                raise UserError(f"{self.path} has no {name} {tuple(built.shape)}. Use a fine-tuned checkpoint.")
        return model, task


def open_checkpoint(checkpoint: str | Path | Checkpoint) -> Checkpoint:
    """Read a checkpoint and its configuration; one that is open already is returned as it is.

    Raises:
        UserError: as `safe_load` and `saved_config`.
    """
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    state = safe_load(checkpoint)
    return Checkpoint(Path(checkpoint), state, saved_config(state, checkpoint))


def load_models(states: Mapping[Path, dict[str, Any]], data: Path) -> tuple[list[nn.Module], FairseqTask]:
    """Build the models in some checkpoints, on the CPU, and the task of the first, as fairseq does.

    The configurations in `states` were checked; `data` is a folder with the dictionaries.
    """
    named = {str(path): state for path, state in states.items()}
    with opened(named):
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([*named], {"data": str(data)})
    return models, task
