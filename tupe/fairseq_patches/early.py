"""Import `common.user_dir` before a job of Hydra's; fairseq does it within `main`, too late to check what it reads."""

import contextlib
import importlib
import sys
import traceback
from typing import Any

from fairseq.utils import import_user_module
from hydra.core.global_hydra import GlobalHydra
from hydra.experimental.callback import Callback
from omegaconf import OmegaConf

from tupe.errors import UserError, one_line
from tupe.fairseq_patches.configuration import flags_are_booleans, refuse_outputs
from tupe.fairseq_patches.patching import install
from tupe.fairseq_patches.printing import sentence, silence_libraries


class ImportUserDir(Callback):
    """Imports `common.user_dir` and the plugin before the job begins; configs/ name it in `hydra.callbacks`."""

    def on_run_start(self, config: Any, **kwargs: Any) -> None:
        """End with a sentence where Hydra could not write its files, which it does before the job."""
        try:
            refuse_outputs(config)
        except UserError as error:
            sys.exit(f"error: {error}")

    def on_job_start(self, config: Any, **kwargs: Any) -> None:
        try:
            import_user_module(config.common)  # first: terms of one's own are registered before the plugin is imported
            importlib.import_module("tupe.plugin")
            install()  # a process of a launcher imports fairseq's command after the plugin
            silence_libraries()
            overrides = OmegaConf.to_container(config.hydra.overrides.task)  # where ${...} is text
            # composed again, because Hydra has made true of a 2; search paths are relative to where the command began
            with contextlib.chdir(config.hydra.runtime.cwd), flags_are_booleans():
                GlobalHydra.instance().config_loader().load_sweep_config(config, overrides)
        except Exception as error:  # Hydra would make a warning of it, and go on
            said = sentence(error)
            if isinstance(error, FileNotFoundError):
                said = f"there is no folder {one_line(error)}: set common.user_dir to a package, such as tupe"
            elif isinstance(error, ImportError) and str(error).startswith("Failed to import --user-dir"):
                said = one_line(error)  # not of an import within the package
            if said is None:
                traceback.print_exc()
            sys.exit(1 if said is None else f"error: {said}")
