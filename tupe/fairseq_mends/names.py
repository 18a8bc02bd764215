"""A model name that does not exist: fairseq prints its own 150 names, or all of its configuration."""

from __future__ import annotations

import argparse
import difflib

from fairseq import models, options
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends


def refuse_unknown(name: str) -> None:
    """Raises a `UserError` that lists our models, unless `name` is a model or architecture that fairseq knows."""
    if name in ARCH_MODEL_REGISTRY or name in MODEL_REGISTRY:
        return
    from tupe.models.config import MODEL_NAMES  # not earlier: the models import this package

    near = difflib.get_close_matches(name, MODEL_NAMES, n=1)
    systems, sizes = zip(*(known.rsplit("_", 1) for known in MODEL_NAMES))
    raise UserError(
        f"there is no model '{name}'{f' (did you mean {near[0]}?)' if near else ''}: a name is SYSTEM_SIZE with system "
        f"{', '.join(dict.fromkeys(systems))} and size {', '.join(dict.fromkeys(sizes))}; see `tupe systems`"
    )


@mends(options, "parse_args_and_arch")
def known_architecture(original):
    """`--arch` with a name that does not exist."""

    def parse_args_and_arch(parser, input_args=None, *args, **kwargs):
        early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        early.add_argument("--arch", "-a")
        arch = early.parse_known_args(input_args)[0].arch
        if arch is not None:
            refuse_unknown(arch)
        return original(parser, input_args, *args, **kwargs)

    return parse_args_and_arch


@mends(models, "build_model")
def known_model(original):
    """Hydra's `model._name` with a name that does not exist."""

    def build_model(cfg, *args, **kwargs):
        name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
        if isinstance(name, str):
            refuse_unknown(name)
        return original(cfg, *args, **kwargs)

    return build_model
