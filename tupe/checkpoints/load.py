"""Read checkpoints, build their models, and write models that were not trained here as checkpoints of fairseq."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.tasks import FairseqTask, setup_task
from omegaconf import OmegaConf
from torch import Tensor, nn

import tupe.models  # noqa: F401  a task builds a model by its name
from tupe.models import TupeModel
from tupe.models.config import TupeConfig, saved_config
from tupe.models.heads import TASK_HEADS, has_lm_head
from tupe.patches.checkpoints import labels_sha256, refuse_mixed, trained_with
from tupe.patches.safe_load import safe_load
from tupe.util import UserError, atomic


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of an encoder or an ELECTRA of this plugin."""

    path: Path  # of the file
    state: dict[str, Any]  # the content of the file, with tensors on the CPU
    config: TupeConfig  # with `max_positions` filled in

    @property
    def updates(self) -> int:
        """The number of updates that the model was trained for, 0 if the file does not have it."""
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

    def model(self, data: Path) -> tuple[nn.Module, FairseqTask]:
        """Build the model on the CPU, and its task; `data` has the dictionaries and classes.

        Training saves their checksums in the checkpoint, and `tupe import` saves the classes next to it.

        Raises:
            UserError: `data` has other dictionaries or classes, or the file lacks a head, which would be random.
        """
        task = setup_task(OmegaConf.create({**self.task, "data": str(data)}), from_checkpoint=True)
        trained, folder = trained_with(self.state["cfg"]), self.path.parent
        if trained.get("labels_sha256") is None and (folder / "label/dict.txt").is_file():
            trained["labels_sha256"] = labels_sha256(folder)
        refuse_mixed(trained, task, self.path)
        model = task.build_model(OmegaConf.create(vars(self.config)), from_checkpoint=True)
        if not has_lm_head(self.weights):
            model.encoder.lm_head = None
        for name, built in model.state_dict().items():
            if name.startswith(TASK_HEADS) and (name not in self.weights or self.weights[name].shape != built.shape):
                raise UserError(f"{name} {tuple(built.shape)} is not in {self.path}. Use a fine-tuned checkpoint.")
        model.load_state_dict(dict(self.weights))  # the model changes names in the dictionary
        return model, task


def open_checkpoint(checkpoint: str | Path | Checkpoint) -> Checkpoint:
    """Read a checkpoint and its configuration; an open checkpoint is returned as it is.

    Raises:
        UserError: see `safe_load` and `saved_config`.
    """
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    state = safe_load(checkpoint)
    return Checkpoint(Path(checkpoint), state, saved_config(state, checkpoint))


def write_checkpoint(target: Path, model: TupeModel, name: str, *of_task: dict[str, Any] | None) -> None:
    """Write `model`, whose architecture is `name`, with the configurations `of_task` that `write_weights` takes."""
    write_weights(target, model_config(model.args, name), model.state_dict(), *of_task)


def model_config(args: Namespace, name: str) -> dict[str, Any]:
    """Return the configuration of an encoder of the architecture `name`: its `args` without fairseq's other fields."""
    fields = {field: value for field, value in vars(args).items() if field in TupeConfig.__dataclass_fields__}
    return {**fields, "_name": name}


def write_weights(
    target: Path,
    config: dict[str, Any],
    weights: dict[str, Tensor],
    task: dict[str, Any] | None = None,
    criterion: dict[str, Any] | None = None,
    updates: int = 0,
) -> None:
    """Write a checkpoint for `--restore-file`, `--finetune-from-model` and `TupeModel.from_pretrained`.

    It does not contain the optimizer's state, so training from it starts a new one.

    Args:
        target: a new file.
        config: the model's configuration.
        weights: the model's parameters.
        task: the task's configuration, by default that of `masked_lm`.
        criterion: the criterion's configuration.
        updates: the number of updates that the model was trained for.
    """
    history = {"num_updates": updates, "criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    state = {
        "args": None,
        "cfg": {
            "common": {"seed": 1},
            "task": task or {"_name": "masked_lm", "data": "", "tokens_per_sample": config["max_positions"]},
            "model": config,
            **({} if criterion is None else {"criterion": criterion}),
            "bpe": None,
            "tokenizer": None,
        },
        "model": weights,
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }
    write_state(target, state)


def write_state(target: Path, state: dict[str, Any], overwrite: bool = False) -> None:
    """Write the content of a checkpoint to a new file, or with `overwrite` replace one, atomically."""
    with atomic(target, overwrite) as unfinished:
        torch.save(state, unfinished)
