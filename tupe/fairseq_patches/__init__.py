"""Patches for fairseq on today's Python and PyTorch. Importing this package changes nothing outside a command.

Where fairseq has a class, one that derives from it takes its place in a run of ours: `TupeTrainer`, `TupeTask`, the
optimizers for half precision. Where it has none, a function is wrapped (`patching.patches`), or one of its modules sees
a library with a few names replaced (`patching.overlay`). All refuse a fairseq for which they were not made. Runs of
other models in the same process stay fairseq's (`scope`). A patch can go when fairseq no longer does what its docstring
says.
"""

import sys

from tupe.fairseq_patches import commands, libraries, loop, trainer  # noqa: F401
from tupe.fairseq_patches.checkpoints import dictionary_sha256
from tupe.fairseq_patches.patching import install, patched
from tupe.fairseq_patches.task import put_in_scope

__all__ = ["dictionary_sha256", "install", "patched", "put_in_scope"]

if not sys.modules.keys().isdisjoint({"fairseq_cli", "tupe.cli"}):  # a command, of fairseq or of ours
    install()
