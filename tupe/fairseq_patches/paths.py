"""A checkpoint does not carry the absolute paths of the machine that wrote it."""

import os
from collections.abc import Collection
from typing import Any


def names(value: Any, kept: Collection[str] = ()) -> Any:
    """`value`, nested dictionaries and lists, with the last part of every absolute path, also in `a:b`.

    `kept` are keys whose values stay.
    """
    if isinstance(value, dict):
        return {key: item if key in kept else names(item, kept) for key, item in value.items()}
    if isinstance(value, list):
        return [names(item, kept) for item in value]
    if not isinstance(value, str) or "://" in value:
        return value
    parts = value.split(os.pathsep)
    return os.pathsep.join(os.path.basename(os.path.normpath(part)) if os.path.isabs(part) else part for part in parts)
