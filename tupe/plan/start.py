"""Start a planned training in a folder that belongs to one model and its data."""

import contextlib
import os
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import DictConfig

from tupe.cores import cpu_environment, threads_for
from tupe.files import Owner
from tupe.plan.check import Launch
from tupe.plan.precision import Choice


def start(
    command: list[str],
    cfg: DictConfig,
    launch: Launch,
    made_by: str,
    made_of: dict[str, Any],
    node_rank: int,
    precision: Choice | None = None,
) -> NoReturn:
    """Lock the folder of the checkpoints on machine 0, and replace this process by `command`, the training.

    The folder depends on `made_of`, and gets the precision, for when the training resumes; None on the CPU.

    Raises:
        UserError: if another process works in the folder, or if it holds something else.
    """
    folder = Path(cfg.checkpoint.save_dir)
    owner = Owner(
        folder,
        made_by,
        made_of,
        besides=None,  # logs of a scheduler, what fairseq began alone
        mending="set checkpoint.save_dir to another folder, or remove this one to train anew",
        is_begun=lambda: any(folder.glob("checkpoint*.pt")),
    )
    with contextlib.ExitStack() as held:
        if node_rank > 0:
            owner.check()
        else:
            os.set_inheritable(held.enter_context(owner.hold()).fileno(), True)  # the training holds the folder
            if precision is not None:
                precision.keep(folder)
        if not launch.gpus:
            os.environ |= cpu_environment(threads_for(folder, launch.processes))
        os.execvp(command[0], command)
