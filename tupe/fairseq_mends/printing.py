"""What a run says: an error as its sentence, without a traceback; its log, also in a file beside its checkpoints."""

from __future__ import annotations

import logging
import os
import sys

import hydra._internal.utils
from fairseq.distributed import utils as distributed_utils
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn
from torch.multiprocessing import ProcessRaisedException

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import before_training

#: In the folder of a run of `fairseq-train`; Hydra writes hydra_train.log.
LOG = "train.log"
_RAISED = f"\n{UserError.__module__}.{UserError.__qualname__}: "


def sentence(error: BaseException) -> str | None:
    """The sentence of a `UserError`, also of one raised in a process that fairseq started; otherwise None."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ProcessRaisedException):  # it carries the traceback of the process as text
        return str(error).rpartition(_RAISED)[2].strip() if _RAISED in str(error) else None
    return None


def print_sentence(otherwise):
    """`sys.excepthook` that leaves every other exception to the hook `otherwise`. Python then exits with 1."""

    def excepthook(kind, error, traceback):
        found = sentence(error)
        if found is None:
            otherwise(kind, error, traceback)
        else:
            sys.stdout.flush()  # the log is there: the sentence comes last
            print(f"error: {found}", file=sys.stderr)

    return excepthook


sys.excepthook = print_sentence(sys.excepthook)


def _is_printed(name: str) -> bool:
    return name == "HYDRA_FULL_ERROR" and sentence(sys.exc_info()[1]) is not None


@mends(hydra._internal.utils, "_is_env_set", "name", only_for=_is_printed)
def raised_by_hydra(original):
    """Hydra prints errors itself, with advice on its stack trace, unless it is told to raise them."""
    return lambda name: True


_return_value = vars(JobReturn).get("return_value")


def _raise_or_return(job: JobReturn) -> object:
    """What `JobReturn.return_value` does, but for a `UserError` it does not write the overrides to the screen first."""
    if sentence(job._return_value) is not None:
        raise job._return_value
    return _return_value.fget(job)


if isinstance(_return_value, property):  # Hydra 1.0 has a field, and raises at once
    JobReturn.return_value = _return_value.getter(_raise_or_return)


@before_training
def logged_beside_the_checkpoints(cfg, task, model):
    """Without Hydra and `--log-file` the log is only on the screen, and `tupe plot-training` has nothing to read."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _RunLog)]:  # of a run before
        root.removeHandler(handler)
        handler.close()
    by_hydra = HydraConfig.initialized() or "job_logging_cfg" in cfg
    if not by_hydra and cfg.common.log_file is None and distributed_utils.is_master(cfg.distributed_training):
        os.makedirs(cfg.checkpoint.save_dir, exist_ok=True)
        handler = _RunLog(os.path.join(cfg.checkpoint.save_dir, LOG), encoding="utf-8", delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
        root.addHandler(handler)


class _RunLog(logging.FileHandler):
    """That of one run."""
