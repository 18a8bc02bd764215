"""Read values from files as dataclasses, checked: known fields, none missing, of their types, choices and ranges.

    @dataclass(frozen=True)
    class Sweep:
        version: ClassVar[int] = 2                   # of the file, by `write`; a file without one is of version 1
        checkpoint: str
        updates: int = checked(minimum=0)
        overrides: tuple[str, ...] = ()
        launcher: Literal["basic", "joblib"] = "basic"   # an Enum also, by its values

    sweep = read(path, Sweep, made_by="scripts/glue.sh")     # JSON
    model = typed(TupeConfig, state["cfg"]["model"], source=f"{path}: cfg.model", made_by="this plugin")
    write(path, sweep)

Types are bool, int, float (finite), str (Unicode), Path, Any, Literal, Enum, Optional, Union, list, tuple, dict, and
dataclasses of these. An error is one sentence with the file and the field.
"""

import dataclasses
import enum
import json
import re
import stat
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from tupe.errors import UserError
from tupe.files.atomic_files import write_json

T = TypeVar("T")

_MENDING = "copy it again from where it is whole, or make it again"
_ATOMS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text", Path: "a path"}
_UNIONS = (Union, types.UnionType)  # Optional[int] and `int | None`


def checked(
    minimum: float | None = None, pattern: str | None = None, maximum: float | None = None, **others: Any
) -> Any:
    """Make a field of a dataclass whose value (or each of its values) is within limits, or matches all of `pattern`."""
    limits = {"minimum": minimum, "pattern": pattern, "maximum": maximum}
    return dataclasses.field(metadata={name: limit for name, limit in limits.items() if limit is not None}, **others)


def read(path: Path, kind: type[T], made_by: str, mending: str = _MENDING) -> T:
    """Read a JSON file as `kind`, a dataclass or another type; a `version: ClassVar[int]` of it is that of the file.

    Messages name what makes such files (`made_by`) and what to do (`mending`).

    Raises:
        UserError: if it is not there, cannot be read, is no JSON, or is not what `kind` says.
    """
    content = read_json(path, made_by, mending)
    wanted = getattr(kind, "version", None)
    if wanted is not None and isinstance(content, dict):
        version = content.pop("version", 1)
        if type(version) is not int:  # of another program
            raise _wrong(str(path), f"version is {_shown(version)}, not a whole number", made_by, mending)
        if version != wanted:
            raise UserError(
                f"{path} is of version {_shown(version)}, but this tupe reads version {wanted}: use the tupe that "
                "wrote it, or make it again."
            )
    return typed(kind, content, str(path), made_by, mending)


def read_json(path: Path, made_by: str, mending: str = _MENDING) -> Any:
    """Read any JSON file, with the arguments and errors of `read`."""
    text = read_text(path, made_by, mending)
    if not text.strip():
        raise _wrong(str(path), "it is empty", made_by, mending)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"no JSON from line {error.lineno}, column {error.colno} on"
        raise _wrong(str(path), reason, made_by, mending) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets in brackets
        raise _wrong(str(path), str(error).partition(":")[0], made_by, mending) from None


def read_text(path: Path, made_by: str, mending: str = _MENDING) -> str:
    """Read a file of UTF-8 text, with the arguments and errors of `read`."""
    check_file(path, made_by)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _wrong(str(path), f"not UTF-8 from byte {error.start} on", made_by, mending) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


def check_file(path: Path, made_by: str) -> None:
    """Raise a `UserError` unless `path` is a file: a pipe or a device could be read for ever."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"there is no {path}: give what {made_by} wrote.") from None
    except (OSError, ValueError) as error:  # no permission, a loop of links; a NUL in the name
        raise UserError(f"{path!s} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not stat.S_ISREG(mode):
        raise UserError(f"{path} is a {'folder' if stat.S_ISDIR(mode) else 'pipe or device'}, not a file.")


def write(path: Path, record: Any) -> None:
    """Write a dataclass as JSON with its version, atomically."""
    version = getattr(record, "version", None)
    write_json(path, {**({} if version is None else {"version": version}), **dataclasses.asdict(record)})


def typed(kind: type[T], value: Any, source: str, made_by: str, mending: str = _MENDING) -> T:
    """Return `value`, of plain lists, dictionaries, numbers and text, as the type `kind`, such as a dataclass.

    Messages name its `source`, what it was made by, and what to do.

    Raises:
        UserError: at the first field that is unknown, missing or not what its type says.
    """
    try:
        return _typed(kind, value, "", {})
    except _Mismatch as mismatch:
        raise _wrong(source, str(mismatch), made_by, mending) from None


class _Mismatch(Exception):
    pass


def _wrong(source: str, reason: str, made_by: str, mending: str) -> UserError:
    return UserError(f"{source} is not what {made_by} writes ({reason}): {mending}.")


def _typed(kind: Any, value: Any, where: str, limits: dict[str, Any]) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if kind in _ATOMS:
        return _atom(kind, value, where, limits)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return _choice(arguments or tuple(kind), value, where)
    if origin in _UNIONS:
        return _union(arguments, value, where, limits)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, where)
    if kind is type(None):
        _require(value is None, value, where, "null")
        return None
    return _collection(origin or kind, arguments, value, where, limits)


def _atom(kind: type, value: Any, where: str, limits: dict[str, Any]) -> Any:
    accepted = {float: (int, float), Path: (str,)}.get(kind, (kind,))
    fits = isinstance(value, accepted) and isinstance(value, bool) == (kind is bool)
    if fits and kind is float:
        fits = abs(value) <= sys.float_info.max  # neither infinite nor NaN
    if fits and isinstance(value, str):
        fits = not any(0xD800 <= ord(character) < 0xE000 for character in value)  # half characters, which JSON can hold
    _require(fits, value, where, _ATOMS[kind])
    if "minimum" in limits:
        _require(value >= limits["minimum"], value, where, f"{limits['minimum']} or more")
    if "maximum" in limits:
        _require(value <= limits["maximum"], value, where, f"{limits['maximum']} or less")
    if "pattern" in limits:
        _require(re.fullmatch(limits["pattern"], value), value, where, f"like {limits['pattern']}")
    return kind(value)


def _choice(choices: tuple, value: Any, where: str) -> Any:
    values = [choice.value if isinstance(choice, enum.Enum) else choice for choice in choices]
    for choice, known in zip(choices, values):
        if type(value) is type(known) and value == known:
            return choice
    raise _Mismatch(f"{where or 'it'} is {_shown(value)}, not one of {', '.join(map(str, values))}")


def _union(kinds: tuple, value: Any, where: str, limits: dict[str, Any]) -> Any:
    mismatches = []
    for kind in sorted(kinds, key=lambda kind: kind is float):  # a whole number is both
        try:
            return _typed(kind, value, where, limits)
        except _Mismatch as mismatch:
            if kind is not type(None):
                mismatches.append(str(mismatch))
    raise _Mismatch(", and ".join(mismatches))


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    _require(isinstance(value, dict), value, where, "an object with named fields")
    hints, prefix = typing.get_type_hints(kind), f"{where}." if where else ""
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for name in value:
        if name not in fields:
            raise _Mismatch(f"{where or 'it'} has the unknown field {_shown(name)}")
    for name, field in fields.items():
        if name not in value and field.default is field.default_factory:  # both are missing
            raise _Mismatch(f"{prefix}{name} is missing")
    return kind(**{n: _typed(hints[n], v, prefix + n, dict(fields[n].metadata)) for n, v in value.items()})


def _collection(kind: Any, arguments: tuple, value: Any, where: str, limits: dict[str, Any]) -> Any:
    if kind is dict:
        _require(isinstance(value, dict), value, where, "an object")
        key, item = arguments or (Any, Any)
        name = f"a name in {where or 'it'}"
        return {_typed(key, k, name, {}): _typed(item, v, f"{where}[{_shown(k)}]", limits) for k, v in value.items()}
    if kind not in (list, tuple):
        raise TypeError(f"{kind} is not a type that a file can hold")
    _require(isinstance(value, (list, tuple)), value, where, "a list")
    items = arguments or (Any, ...)
    if kind is tuple and items[-1] is not ...:
        _require(len(value) == len(items), value, where, f"a list of {len(items)}")
    else:
        items = items[:1] * len(value)
    return kind(_typed(item, v, f"{where}[{i}]", limits) for i, (item, v) in enumerate(zip(items, value)))


def _require(fits: object, value: Any, where: str, what: str) -> None:
    if not fits:
        raise _Mismatch(f"{where or 'it'} is {_shown(value)}, not {what}")


def _shown(value: Any) -> str:
    """Show any value in one line; long ones are cut."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
