"""Output of a run: an error as one sentence without a traceback, and the log, also as a file beside the checkpoints."""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable

from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import InterpolationKeyError, InterpolationResolutionError, MissingMandatoryValue, ValidationError
from torch.multiprocessing import ProcessRaisedException

from tupe.errors import UserError, one_line
from tupe.fairseq_patches.configuration import cannot_compose
from tupe.fairseq_patches.patching import only_runs, put
from tupe.fairseq_patches.scope import config_in_scope

#: In the folder of a run of `fairseq-train`; Hydra writes hydra_train.log.
LOG = "train.log"
_NO_CONFIGURATION = (
    *(HydraException, InterpolationKeyError, InterpolationResolutionError),
    *(MissingMandatoryValue, ValidationError),
)
_RAISED = f"\n{UserError.__module__}.{UserError.__qualname__}: "


def sentence(error: BaseException) -> str | None:
    """Return the sentence of a `UserError` or of a configuration that cannot be made; otherwise None.

    The `UserError` may come from a process that fairseq started.
    """
    if isinstance(error, UserError):
        return one_line(error)
    if isinstance(error, _NO_CONFIGURATION):
        return f"the configuration cannot be made: {cannot_compose(error)}"
    if isinstance(error, ProcessRaisedException) and _RAISED in str(error):  # the traceback of the process as text
        return one_line(str(error).rpartition(_RAISED)[2])
    return None


def print_sentence(otherwise):
    """Make a `sys.excepthook` that leaves every other exception to the hook `otherwise`. Python exits with 1.

    After a Ctrl-C before the first update it ends by the signal, which shells report as 130.
    """

    def excepthook(kind, error, traceback):
        found = "interrupted." if isinstance(error, KeyboardInterrupt) else sentence(error)
        if found is None:
            otherwise(kind, error, traceback)
        else:
            sys.stdout.flush()  # the log is there: the sentence comes last
            print(f"error: {found}", file=sys.stderr)

    return excepthook


@only_runs
def sentences_are_printed() -> None:
    """Let Python and Hydra print a `UserError` as its sentence, and the log of a training begin in one line."""
    put(sys, "excepthook", print_sentence(sys.excepthook))
    put(JobReturn, "return_value", _return_value.getter(_raise_or_return))
    logging.getLogger("fairseq_cli.train").addFilter(_says_what_runs)


_return_value = JobReturn.return_value


def _raise_or_return(job: JobReturn) -> object:
    """Return or raise as `JobReturn.return_value`, which prints the overrides, and Hydra then advice on a trace."""
    if sentence(job._return_value) is not None:
        sys.stdout.flush()
        raise SystemExit(f"error: {sentence(job._return_value)}") from job._return_value
    return _return_value.fget(job)


#: Warnings of fairseq's own calls on today's libraries, which no user can do anything about: message and module.
_NOT_FOR_USERS = (
    ("", r"hydra\."),
    (r"\s*'config' is validated against ConfigStore schema", ""),
    (r"\s*The version_base parameter is not specified", ""),
    ("'pin_memory' argument is set as true but no accelerator", ""),
    ("", r"fairseq\."),
)


def silence_libraries() -> None:
    """Ignore what fairseq's calls make today's libraries say, unless Python was asked for warnings."""
    if not sys.warnoptions:
        for message, module in _NOT_FOR_USERS:
            for kind in (UserWarning, FutureWarning, DeprecationWarning):
                warnings.filterwarnings("ignore", message, kind, module)


def _says_what_runs(record: logging.LogRecord) -> bool:
    """Shorten the line on which fairseq logs the whole configuration, 8 kB, in a run of ours."""
    cfg = record.msg
    if isinstance(cfg, (DictConfig, FairseqConfig)) and config_in_scope(cfg):
        parts = (f"{part} {getattr(cfg[part], '_name', None)}" for part in ("task", "model", "criterion", "optimizer"))
        record.msg = f"configuration: {', '.join(parts)}; every checkpoint has all of it"
    return True


def log_beside_the_checkpoints(cfg) -> None:
    """Log to a file without Hydra and `--log-file` too: `tupe plot training` reads it."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _RunLog)]:  # of a run before
        root.removeHandler(handler)
        with contextlib.suppress(OSError):  # a full disk
            handler.close()
    by_hydra = HydraConfig.initialized() or "job_logging_cfg" in cfg
    if not by_hydra and cfg.common.log_file is None and distributed_utils.is_master(cfg.distributed_training):
        os.makedirs(cfg.checkpoint.save_dir, exist_ok=True)
        handler = _RunLog(os.path.join(cfg.checkpoint.save_dir, LOG), encoding="utf-8", delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s"))
        root.addHandler(handler)
    for handler in root.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handleError = _says_once(handler)


def _says_once(handler: logging.FileHandler) -> Callable[[logging.LogRecord], None]:
    """Replace `handler.handleError`: one line for a full disk, where Python prints a traceback for each record."""
    said = False

    def handle_error(record: logging.LogRecord) -> None:
        nonlocal said
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            logging.FileHandler.handleError(handler, record)
        elif not said:
            said = True
            print(f"warning: {handler.baseFilename} cannot be written: {error.strerror}", file=sys.stderr)

    return handle_error


class _RunLog(logging.FileHandler):
    """Log file of one run."""
