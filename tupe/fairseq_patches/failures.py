"""Training that cannot go on: a loss or gradient that is not finite, or a loss scale at its floor."""

import contextlib
import os
from collections.abc import Iterator

from fairseq.trainer import Trainer

from tupe.errors import UserError

_SHOWN = 32


@contextlib.contextmanager
def not_finite_is_explained(trainer: Trainer, samples: list[dict]) -> Iterator[None]:
    """fairseq saves `crash.pt`, runs the batch again to log where NaN appears, and ends with a traceback.

    Raises:
        UserError: `explain`, in place of that error.
    """
    try:
        yield
    except Exception as error:
        cause = error
        while cause is not None and not isinstance(cause, FloatingPointError):
            cause = cause.__context__  # the second run can fail in its own way
        if cause is None:
            raise
        raise UserError(explain(trainer, samples, cause)) from error


def explain(trainer: Trainer, samples: list[dict], error: FloatingPointError) -> str:
    """The sentence: which update (counted from 1), which batch ids, where the state is, and fairseq's reason."""
    ids = [int(index) for sample in samples if sample for index in sample.get("id", ())]
    shown = ", ".join(map(str, ids[:_SHOWN])) + (f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else "")
    reason = str(error).splitlines()[0].rstrip(".")
    if reason == "gradients are Nan/Inf":
        reason = "the loss or a gradient is NaN or infinite; try a lower learning rate, more warm-up or --clip-norm 1"
    crash = os.path.join(trainer.cfg.checkpoint.save_dir, "crash.pt")
    update = trainer.get_num_updates() + 1
    return f"training stopped at update {update}, batch ids {shown} (state saved in {crash}): {reason}"
