"""A checkpoint that this run cannot continue from: which file, which fields differ, what to do."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from tupe.errors import UserError
from tupe.fairseq_mends.dictionaries import refuse_other_dictionary
from tupe.fairseq_mends.mend import mends
from tupe.systems import ELECTRA_FIELDS, SYSTEM_FIELDS

logger = logging.getLogger(__name__)


@mends(checkpoint_utils, "load_checkpoint")
def named_checkpoint_exists(original):
    """A `--restore-file` that does not exist is otherwise a line in the log and a model trained from nothing."""

    def load_checkpoint(cfg, trainer, **kwargs):
        last = os.path.join(cfg.save_dir, "checkpoint_last.pt")
        named = cfg.restore_file if cfg.restore_file != "checkpoint_last.pt" else None
        if named is None and not os.path.exists(last):
            named = cfg.finetune_from_model
        if named is not None and not checkpoint_utils.PathManager.isfile(named):
            raise _missing(named)
        return original(cfg, trainer, **kwargs)

    return load_checkpoint


@mends(checkpoint_utils.PathManager, "copy")
def copied_whole(original):
    """A run killed while `checkpoint_last.pt` is copied from the newest checkpoint otherwise leaves half a file."""

    def copy(source, target, overwrite=False):
        if not checkpoint_utils.PathManager.supports_rename(target):
            return original(source, target, overwrite)
        unfinished = f"{target}.part"
        original(source, unfinished, overwrite=True)
        checkpoint_utils.PathManager.rename(unfinished, target)
        return True

    return copy


@mends(checkpoint_utils, "load_model_ensemble_and_task")
def checkpoints_exist(original):
    """`fairseq-validate --path` and the hub interface on a file that does not exist."""

    def load_model_ensemble_and_task(filenames, *args, **kwargs):
        try:
            return original(filenames, *args, **kwargs)
        except OSError as error:
            if not str(error).startswith("Model file not found: "):
                raise
            raise _missing(str(error).partition(": ")[2]) from error

    return load_model_ensemble_and_task


if "fairseq_cli.train" in sys.modules:

    @mends(sys.modules["fairseq_cli.train"], "train")
    def stopped_or_finished(original):
        """A run started again after its last update otherwise makes one more and writes it over the checkpoint.

        Ctrl-C says how to go on.
        """

        def train(cfg, trainer, task, epoch_itr):
            if 0 < cfg.optimization.max_update <= trainer.get_num_updates():
                logger.info(
                    f"nothing to do: {trainer.get_num_updates()} of {cfg.optimization.max_update} updates are done"
                )
                return [None], True
            try:
                return original(cfg, trainer, task, epoch_itr)
            except KeyboardInterrupt as interrupt:
                last = os.path.join(cfg.checkpoint.save_dir, "checkpoint_last.pt")
                goes_on = f"the same command goes on from {last}" if os.path.exists(last) else "nothing was saved yet"
                raise UserError(f"interrupted after update {trainer.get_num_updates()}: {goes_on}") from interrupt

        return train


@mends(Trainer, "load_checkpoint")
def checkpoint_fits(original):
    """fairseq says "please ensure that the architectures match" and hides the reason."""

    def load_checkpoint(self, filename, *args, **kwargs):
        load = checkpoint_utils.load_checkpoint_to_cpu

        def load_and_compare(path, *load_args, **load_kwargs):
            state = load(path, *load_args, **load_kwargs)
            compare(path, state, self.cfg.model, self.task)
            return state

        checkpoint_utils.load_checkpoint_to_cpu = load_and_compare
        try:
            return original(self, filename, *args, **kwargs)
        except AssertionError as error:  # another criterion or optimizer
            raise UserError(
                f"{filename} cannot be continued: {str(error).rstrip('.')}; to start a new run from its parameters "
                "use --finetune-from-model instead of --restore-file"
            ) from error
        except Exception as error:
            reason = error.__context__
            if "parameter group" in str(error):
                raise UserError(
                    f"the optimizer in {filename} has other groups of parameters: resume with the --layer-decay that "
                    "it had, or with --reset-optimizer"
                ) from error
            if isinstance(error, UserError) or not str(error).startswith("Cannot load model parameters"):
                raise
            if isinstance(reason, UserError):
                raise reason from None
            lines = "; ".join(line.strip() for line in str(reason).splitlines())
            raise UserError(f"the parameters in {filename} are not those of this model: {lines[:400]}") from error
        finally:
            checkpoint_utils.load_checkpoint_to_cpu = load

    return load_checkpoint


def _missing(path: str) -> UserError:
    return UserError(f"there is no checkpoint {os.path.abspath(path)}: give the path of one")


def compare(path: str, state: dict, model: Any, task: Any) -> None:
    """Raises a `UserError` if the checkpoint's dictionary or position encoding is not that of this run.

    Args:
        path: name of the checkpoint.
        state: what is in it, as `load_checkpoint_to_cpu` returns it.
        model: the configuration `cfg.model` of this run.
        task: has the `source_dictionary` of this run.
    """
    theirs, is_ours = state["cfg"].model, hasattr(model, "dictionary_sha256")
    if is_ours and not hasattr(theirs, "dictionary_sha256"):
        raise UserError(f"checkpoint {path} is of fairseq's model {theirs._name}: give one that a model of TUPE wrote")
    checksum = getattr(theirs, "dictionary_sha256", None)
    if is_ours or checksum is not None:
        embeddings = [tensor for name, tensor in state["model"].items() if name.endswith("embed_tokens.weight")]
        size = len(embeddings[0]) if embeddings else None
        refuse_other_dictionary(checksum, task.source_dictionary, size, where=f" {path}")
    if is_ours:
        differing = [
            f"{field}: checkpoint {getattr(theirs, field)}, here {getattr(model, field)}"
            for field in (*SYSTEM_FIELDS, *ELECTRA_FIELDS)
            if hasattr(theirs, field)
            and hasattr(model, field)
            and getattr(theirs, field) != getattr(model, field)
            # fine-tuning may add segments (as DIET does): their parameters then start at zero
            and not (field == "segment" and theirs.segment == "none")
        ]
        if differing:
            raise UserError(
                f"checkpoint {path} is of another system ({'; '.join(differing)}): run with the checkpoint's values, "
                "or start from a checkpoint of this system"
            )
