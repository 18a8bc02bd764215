"""A checkpoint that this run cannot continue from: which file, which fields differ, what to do."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from fairseq import checkpoint_utils
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.trainer import Trainer

from tupe.errors import UserError
from tupe.fairseq_patches.dictionaries import prepared_by, refuse_other_dictionary, refuse_other_target, saved_size
from tupe.fairseq_patches.patching import patches, replaced
from tupe.fairseq_patches.scope import in_scope
from tupe.systems import system_fields


def trainer_in_scope(cfg, trainer, *args, **kwargs) -> bool:
    """For `patches(only_for=...)` on a function of a trainer."""
    return in_scope(trainer)


@patches(checkpoint_utils, "load_checkpoint", "cfg trainer", only_for=trainer_in_scope)
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


@patches(checkpoint_utils, "load_model_ensemble_and_task", "filenames")
def checkpoints_exist(original):
    """`fairseq-validate --path` and the hub interface on a file that does not exist, at which they fail."""

    def load_model_ensemble_and_task(filenames, *args, **kwargs):
        try:
            return original(filenames, *args, **kwargs)
        except OSError as error:
            if not str(error).startswith("Model file not found: "):
                raise
            raise _missing(str(error).partition(": ")[2]) from error

    return load_model_ensemble_and_task


@contextlib.contextmanager
def checkpoint_fits(trainer: Trainer, filename: str) -> Iterator[None]:
    """Compare the checkpoint that is loaded with the run.

    fairseq says "please ensure that the architectures match" and hides the reason.

    Raises:
        UserError: if the checkpoint is of something else.
    """
    load = checkpoint_utils.load_checkpoint_to_cpu

    def load_and_compare(path, *load_args, **load_kwargs):
        state = load(path, *load_args, **load_kwargs)
        compare(path, state, trainer.cfg.model, trainer.task)
        return state

    try:
        with replaced(checkpoint_utils, "load_checkpoint_to_cpu", load_and_compare):
            yield
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


def _missing(path: str) -> UserError:
    return UserError(f"there is no checkpoint {os.path.abspath(path)}: give the path of one")


def compare(path: str, state: dict, model: Any, task: Any) -> None:
    """Raises a `UserError` if the checkpoint's dictionary or position encoding is not that of this run.

    Args:
        path: name of the checkpoint.
        state: what is in it, as `load_checkpoint_to_cpu` returns it.
        model: the configuration `cfg.model` of this run.
        task: has the dictionaries of this run.
    """
    theirs, is_ours = state["cfg"].model, hasattr(model, "dictionary_sha256")
    if is_ours and not hasattr(theirs, "dictionary_sha256"):
        raise UserError(f"checkpoint {path} is of fairseq's model {theirs._name}: give one that a model of TUPE wrote")
    kinds = [("a translation model" if hasattr(cfg, "decoder_layers") else "an encoder") for cfg in (theirs, model)]
    if is_ours and kinds[0] != kinds[1]:
        raise UserError(f"checkpoint {path} is {kinds[0]} ({theirs._name}), but this run trains {kinds[1]}")
    checksum = getattr(theirs, "dictionary_sha256", None)
    if is_ours or checksum is not None:
        refuse_other_dictionary(checksum, task.source_dictionary, prepared_by(task), saved_size(state), f" {path}")
    if is_ours:
        refuse_other_target(theirs, task, f" {path}")
    if is_ours:
        differing = [
            f"{field}: checkpoint {getattr(theirs, field)}, here {getattr(model, field)}"
            for field in system_fields(MODEL_DATACLASS_REGISTRY[model._name])
            if hasattr(theirs, field)
            and getattr(theirs, field) != getattr(model, field)
            # fine-tuning may add segments (as DIET does): their parameters then start at zero
            and not (field == "segment" and theirs.segment == "none")
        ]
        if differing:
            raise UserError(
                f"checkpoint {path} is of another system ({'; '.join(differing)}): run with the checkpoint's values, "
                "or start from a checkpoint of this system"
            )
