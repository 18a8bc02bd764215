"""A validation that was due when a checkpoint was saved, and that the process did not live to do."""

import logging
import sys
from types import SimpleNamespace
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from tupe.fairseq_patches.patching import patches
from tupe.fairseq_patches.resume import trainer_in_scope

logger = logging.getLogger(__name__)


@patches(checkpoint_utils, "load_checkpoint", "cfg trainer", only_for=trainer_in_scope)
def validates_what_it_owes(original):
    """`stop` saves first. A run killed before it validates that otherwise goes on, or is finished, without having
    validated: the best checkpoint is then an earlier one, or none.
    """

    def load_checkpoint(cfg, trainer, **kwargs):
        state, batches = original(cfg, trainer, **kwargs)
        loop = sys.modules.get("fairseq_cli.train")
        if loop is not None and state is not None and owes(trainer, state):
            logger.info("the validation at which the run was interrupted")
            place = state["train_iterator"]
            ended = place["iterations_in_epoch"] == 0
            then = SimpleNamespace(
                epoch=place["epoch"] - ended, end_of_epoch=lambda: ended, state_dict=lambda: dict(place)
            )
            subsets = trainer.cfg.dataset.valid_subset.split(",")
            losses = loop.validate(trainer.cfg, trainer, trainer.task, then, subsets)
            checkpoint_utils.save_checkpoint(cfg, trainer, then, losses[0])
        return state, batches

    return load_checkpoint


def owes(trainer: Trainer, state: dict[str, Any]) -> bool:
    """Whether fairseq's loop would have validated what `state`, of a checkpoint's `extra_state`, was saved without."""
    cfg, updates = trainer.cfg, trainer.get_num_updates()  # none where only the parameters were taken
    if "val_loss" not in state or state["val_loss"] is not None or not updates or cfg.checkpoint.reset_dataloader:
        return False
    if cfg.dataset.disable_validation or updates < cfg.dataset.validate_after_updates:
        return False
    place = state["train_iterator"]
    ended = place["iterations_in_epoch"] == 0
    every = [cfg.dataset.validate_interval_updates, cfg.optimization.max_update]
    every += [] if ended else [cfg.checkpoint.save_interval_updates]
    at_end = ended and (place["epoch"] - 1) % cfg.dataset.validate_interval == 0
    return at_end or any(number > 0 and updates % number == 0 for number in every)
