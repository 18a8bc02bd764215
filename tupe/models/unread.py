"""Fields of the position encoding that were given and change nothing, because the model has no term that reads them."""

import contextlib
import logging
from argparse import Namespace
from collections.abc import Iterator
from functools import lru_cache

from tupe.models.config import CONFIGS
from tupe.systems import system_fields

_warn_once = lru_cache(maxsize=None)(logging.getLogger(__name__).warning)  # a model may be built twice, to be counted


@contextlib.contextmanager
def told_of_unread(args: Namespace) -> Iterator[None]:
    """Warn of fields of `args` that differ from those of the model's name and are not read while a block builds it."""
    read = set()

    class Recorded(type(args)):
        def __getattribute__(self, name: str) -> object:
            read.add(name)
            return super().__getattribute__(name)

    kind, args.__class__ = args.__class__, Recorded
    try:
        yield
    finally:
        args.__class__ = kind
    config = CONFIGS.get(getattr(args, "_name", None))
    for name in system_fields(config, kind="encoding") if config else ():
        value = getattr(args, name)
        if name not in read and value != getattr(config, name):
            _warn_once(f"{name}={value} has no effect: the model has no position term that reads it")
