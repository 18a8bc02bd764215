"""Open checkpoints: each file is read once, and its configuration checked, before a model is built from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

import tupe.models  # noqa: F401  fairseq builds a model by its name
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import opened, read_dictionary, refuse_other_labels
from tupe.models.checkpoint_config import saved_config, saved_updates
from tupe.models.config import TupeConfig
from tupe.models.heads import HEADS
from tupe.safe_load import safe_load


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of an encoder or an ELECTRA of this plugin."""

    path: Path  # of the file
    state: dict[str, Any]  # all that the file holds, tensors on the CPU
    config: TupeConfig  # checked, with `max_positions` filled in

    def __str__(self) -> str:
        """Return the path, as messages name a checkpoint."""
        return str(self.path)

    @property
    def updates(self) -> int:
        """The number of updates that the model was trained for, 0 where the file does not say."""
        return saved_updates(self.state, self.path)

    @property
    def task(self) -> dict[str, Any]:
        """The saved configuration of the task, none of whose values was checked."""
        return self.state["cfg"].get("task") or {}

    def check_classes(self, data: Path) -> None:
        """Compare the numbers of the classes of a prepared task with those that the model was fine-tuned with.

        A training leaves their checksum in the checkpoint, and `tupe import` the labels beside it. Where neither is
        found, nothing is compared.

        Raises:
            UserError: if they differ, or if the model predicts a number.
        """
        now = data / "label/dict.txt"
        number = self.task.get("num_classes") == 1 and not self.task.get("multi_label")
        if number and now.is_file() and now.stat().st_size:
            raise UserError(
                f"{self.path} predicts a number, but {data} has classes: give the task that it was fine-tuned on."
            )
        if now.is_file() and self.task.get("labels_sha256"):
            labels = read_dictionary(now, "tupe prepare-glue or prepare-task")
            refuse_other_labels(self.task["labels_sha256"], labels, self.path, data)
            return
        trained = self.task.get("data")
        before = (Path(str(trained)) if trained else self.path.parent) / "label/dict.txt"
        if before.is_file() and now.is_file() and before.read_bytes() != now.read_bytes():
            raise UserError(
                f"{self.path} was fine-tuned with the labels of {before}, which {now} numbers differently: prepare "
                "both alike, a task of your own with --labels in that order."
            )

    @property
    def weights(self) -> dict[str, Tensor]:
        """The parameters of the model by name."""
        return self.state["model"]

    def model(self, data: Path, **settings: int) -> tuple[nn.Module, FairseqTask]:
        """Build the model on the CPU, and its task with `settings` replaced; `data` has the dictionaries.

        Raises:
            UserError: as `load_models`, and if the task lacks a field that `settings` names or the file a head.
        """
        cfg = {**self.state["cfg"], "task": {**self.task, **settings}}
        (model,), task = load_models({self.path: {**self.state, "cfg": cfg}}, data)
        lacking = [name for name, value in settings.items() if getattr(task.cfg, name, None) != value]
        if lacking:
            raise UserError(f"the task of {self.path}, {task.cfg._name}, has no setting {lacking[0]}: leave it out")
        own = model.state_dict()
        paths = tuple(f"classification_heads.{head}." for head in model.classification_heads)
        if other := [name for name in self.weights if name.startswith(paths) and name not in own]:
            raise UserError(f"{self.path} has {other[0]}, which a model with its linear_heads lacks: it was changed")
        for name, built in own.items():
            if name.startswith(HEADS) and getattr(self.weights.get(name), "shape", None) != built.shape:
                shape = tuple(built.shape)
                raise UserError(
                    f"{self.path} has no {name} {shape}, which its task needs: give a fine-tuning's checkpoint"
                )
        return model, task


def open_checkpoint(checkpoint: str | Path | Checkpoint) -> Checkpoint:
    """Read a checkpoint and check its configuration and weights; one that is open already is returned as it is.

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

    Raises:
        UserError: if a dictionary is damaged, or the weights do not fit it or the configuration.
    """
    named = {str(path): state for path, state in states.items()}
    try:
        with opened(named):
            models, _, task = checkpoint_utils.load_model_ensemble_and_task([*named], {"data": str(data)})
    except UserError:
        raise
    except Exception as error:  # PyTorch's, of weights that do not fit; fairseq's own, of a damaged dictionary
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"{', '.join(named)} cannot be loaded with the data {data}: {reason!r}.") from error
    return models, task
