"""Patches for fairseq on today's Python and PyTorch. Importing this package changes nothing outside a command.

Each file patches the traps of one subject: a function of fairseq is wrapped (`patching.patches`), or one of its modules
sees a library with a few names replaced (`patching.overlay`); both refuse a fairseq for which the patch was not made.
Runs of other models in the same process stay fairseq's (`scope`). A patch can go when fairseq no longer does what
its docstring says.
"""

import sys

from tupe.fairseq_patches import (  # noqa: F401
    data,
    dictionaries,
    ending,
    failures,
    folders,
    kernels,
    launch,
    loading,
    metric,
    names,
    numpy2,
    paths,
    precision,
    printing,
    ranges,
    resume,
    saving,
    seeds,
    stop,
    task,
    trainer,
    uneven,
    validation,
    whole_words,
)
from tupe.fairseq_patches.dictionaries import dictionary_sha256
from tupe.fairseq_patches.patching import install, patched
from tupe.fairseq_patches.task import put_in_scope

__all__ = ["dictionary_sha256", "install", "patched", "put_in_scope"]

if not sys.modules.keys().isdisjoint({"fairseq_cli", "tupe.cli"}):  # a command, of fairseq or of ours
    install()
