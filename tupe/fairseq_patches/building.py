"""Checks before a model of ours is built, for every command that builds one."""

import contextlib
import sys
from typing import Any

from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.translation import TranslationTask

from tupe.errors import UserError
from tupe.fairseq_patches.data import refuse_missing
from tupe.fairseq_patches.dictionaries import prepared_by, refuse_other_dictionary, refuse_other_target
from tupe.fairseq_patches.patching import install
from tupe.fairseq_patches.task import put_in_scope


def before_building(model: type, cfg: Any, task: FairseqTask) -> None:
    """Check that `model` can be built from `cfg` for `task`, and mark the task and its dictionaries as ours.

    Raises:
        UserError: for data folders that a later epoch would miss, a dictionary that is not the checkpoint's (the hub
            interface and `fairseq-validate` build a model from a checkpoint's configuration), and an encoder that is
            to translate.
    """
    if "fairseq_cli" in sys.modules:  # imported after the plugin
        install()
    put_in_scope(task)
    for side in ("source_dictionary", "target_dictionary"):
        with contextlib.suppress(AttributeError, NotImplementedError):  # a task of somebody's may have none
            put_in_scope(getattr(task, side))  # for `data.data_is_whole`
    if isinstance(task, MaskedLMTask):
        refuse_missing(task.cfg.data)
    checksum = getattr(cfg, "dictionary_sha256", None)
    if checksum is not None:
        refuse_other_dictionary(checksum, task.source_dictionary, prepared_by(task))
    refuse_other_target(cfg, task)
    if isinstance(task, TranslationTask) and not issubclass(model, FairseqEncoderDecoderModel):
        raise UserError(
            "the model is an encoder, which does not translate: give one of `tupe systems --translation`, or a "
            "checkpoint of scripts/translate_train.sh"
        )
