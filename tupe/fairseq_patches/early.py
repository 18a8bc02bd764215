"""Import `common.user_dir` before a job of Hydra's; fairseq imports it within `main`, too late for `call_main`."""

import importlib
import sys
import traceback
from typing import Any

from fairseq.utils import import_user_module
from hydra.experimental.callback import Callback

from tupe.fairseq_patches.patching import install


class ImportUserDir(Callback):
    """Import `common.user_dir` and the plugin before the job begins; configs/ name it in `hydra.callbacks`."""

    def on_job_start(self, config: Any, **kwargs: Any) -> None:
        try:
            import_user_module(config.common)  # first: terms of one's own are registered before the plugin is imported
            importlib.import_module("tupe.plugin")
            install()  # a process of a launcher imports fairseq's command after the plugin
        except Exception:  # Hydra would print a warning and continue
            traceback.print_exc()
            sys.exit(1)
