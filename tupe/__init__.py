"""TUPE: untied position encodings, and the baselines of the papers, as a fairseq plugin.

This file imports nothing of PyTorch or fairseq, so that `tupe.position` and `tupe.attention` work in any PyTorch code.
Given `--user-dir`, fairseq itself imports every file of `tupe.tasks` and `tupe.models`, and they register what the
plugin has.
"""

import importlib
import importlib.abc
import importlib.util
import sys

__version__ = "0.2.0.dev0"

#: Modules that moved, with their submodules. The old names work in version 0.2, with a warning, for what is in the
#: module of today.
RENAMED = {
    "tupe.checkpoints.safe_load": "tupe.safe_load",
    "tupe.dropout": "tupe.layers",
    "tupe.fairseq_mends": "tupe.fairseq_patches",
    "tupe.files.contents": "tupe.files.integrity",
    "tupe.files.whole": "tupe.files.atomic_files",
    "tupe.finetuning": "tupe.experiments",
    "tupe.finetuning.answers": "tupe.inference.answers",
    "tupe.finetuning.languages": "tupe.inference.languages",
    "tupe.finetuning.model_overrides": "tupe.experiments.settings",
    "tupe.finetuning.predict": "tupe.inference.predict",
    "tupe.finetuning.start": "tupe.experiments.settings",
    "tupe.linear": "tupe.layers",
    "tupe.models.saved": "tupe.models.checkpoint_config",
    "tupe.position.check": "tupe.position.testing",
    "tupe.position.own": "tupe.position.registry",
    "tupe.position.two_sided": "tupe.position.cross",
    "tupe.pretraining": "tupe.plan",
    "tupe.study": "tupe.experiments.study",
    "tupe.translation": "tupe.inference",
    "tupe.translation.plan": "tupe.plan.translation",
}


def _current(name):
    """Return the name today of the module that was once called `name`."""
    parent, _, last = name.rpartition(".")
    return RENAMED.get(name) or (f"{_current(parent)}.{last}" if parent else name)


class _OldNames(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import the module of today where a program asks for its old name."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("tupe.") and _current(name) != name:
            return importlib.util.spec_from_loader(name, self)

    def get_code(self, name):
        """Return the code of the module of today, for `python -m`."""
        spec = importlib.util.find_spec(_current(name))
        return spec.loader.get_code(spec.name)

    def exec_module(self, module):
        name = module.__name__
        if name in RENAMED:
            print(f"warning: {name} is now {RENAMED[name]}; version 0.3.0 ends the old name", file=sys.stderr)
        sys.modules[name] = importlib.import_module(_current(name))


sys.meta_path.insert(0, _OldNames())  # first: a submodule of an old name would else be loaded a second time
