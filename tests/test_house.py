"""The size of the house, and what may import what (docs/dev/architecture.md).

A room is a folder of `tupe/`, or a file beside them. Rooms stand on floors, and nothing imports from a floor above its
own. The numbers below are ceilings: a change may lower them.
"""

import ast
import functools
import re
import sys

import pytest

from tests.commands import ROOT

#: Lines of Python in `tupe/`, by room; files beside the rooms together.
ROOMS = {
    "analysis": 1012, "attention": 1830, "checkpoints": 1604, "cli": 806, "criterions": 541, "data": 2217,
    "encoder": 743, "finetune": 832, "hf": 1176, "models": 1666, "optim": 290, "patches": 1216, "position": 1322,
    "tasks": 390, "": 624,
}  # fmt: skip
#: Lines of everything else that is counted.
LINES = {
    "tupe/**/*.py": 16_269, "tests/**/*.py": 15_181, "lab/**/*.py": 2_242, "tests/lab/**/*.py": 402,
    "scripts/**/*.sh": 376, "scripts/**/*.py": 265, "examples/**/*.py": 288, "configs/**/*.yaml": 1_398,
}  # fmt: skip
REFUSALS = 6  # raise, assert and exit, in 1,000 lines of `tupe/`
NODES = 7.66  # of the syntax tree, in a line of `tupe/`, as in 69687301: lines are not saved by writing denser
PAIRS = 74  # of rooms, one of which imports from the other
#: Rooms on a circle of imports, the faces below and what they bring in.
CIRCLE = {"models", "plugin", "tasks"}
#: From the bottom.
FLOORS = (
    ("systems", "util"),
    ("layers",),
    ("position", "data"),
    ("attention", "optim", "criterions", "patches"),
    ("encoder",),
    ("models", "tasks"),
    ("plugin", "checkpoints"),
    ("hf", "analysis", "finetune"),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
#: What fairseq imports on `--user-dir`: they alone bring in the whole plugin.
FACES = ("tupe/models/__init__.py", "tupe/tasks/__init__.py")
#: Shipped with exported models, where it is not called `tupe.hf.modeling_tupe`.
SHIPPED = "modeling_tupe.py"


@functools.cache
def lines(pattern):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.glob(pattern) if path.is_file())


@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def test_no_room_grows():
    rooms = {path.parent.name for path in ROOT.glob("tupe/*/__init__.py")} | {""}
    sizes = {name: lines(f"tupe/{name}/**/*.py" if name else "tupe/*.py") for name in rooms}
    assert {name: size for name, size in sizes.items() if size > ROOMS.get(name, 0)} == {}
    assert ROOMS.keys() == rooms


@pytest.mark.parametrize("pattern", LINES)
def test_nothing_else_grows(pattern):
    assert lines(pattern) <= LINES[pattern]


def test_tests_are_no_longer_than_the_code():
    assert lines("tests/**/*.py") <= lines("tupe/**/*.py")


def test_code_argues_no_more_and_is_no_denser():
    nodes = [node for path in FILES.values() for node in ast.walk(tree(path))]
    exits = ("exit", "error", "SystemExit")  # sys.exit(), parser.error()
    refusals = sum(
        isinstance(node, (ast.Raise, ast.Assert))
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in exits)
        for node in nodes
    )
    assert 1000 * refusals / lines("tupe/**/*.py") <= REFUSALS
    assert len(nodes) / lines("tupe/**/*.py") <= NODES


def room(module):
    """`tupe.models.config` is in `models`."""
    return next(iter(module.split(".")[1:]), None)


def imports(path):
    """The modules that a file imports, at its top or within its functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level or path.name == SHIPPED, f"{path}: a relative import"
            yield from (
                (f"{node.module}.{alias.name}" for alias in node.names) if node.module == "tupe" else [node.module]
            )


FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.glob("tupe/**/*.py"))}


def module_of(name):
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_every_room_stands_on_a_floor():
    rooms = {room(module_of(name)) for name in FILES} - {None}
    assert rooms == set(FLOOR)


def test_rooms_import_from_few_others():
    found = {
        (room(module_of(name)), room(module))
        for name, path in FILES.items()
        for module in imports(path)
        if module.startswith("tupe.")
    }
    found = {pair for pair in found if pair[0] != pair[1]}
    assert len(found) <= PAIRS

    reached = set(found)  # grows to all that a room imports from, directly or through others
    while more := {(a, d) for a, b in reached for c, d in found if b == c} - reached:
        reached |= more
    assert {a for a, b in reached if a == b} - {None} <= CIRCLE


def test_nothing_imports_from_above():
    wrong = []
    for name, path in FILES.items():
        own = room(module_of(name))
        for module in imports(path):
            theirs = room(module) if module.startswith("tupe.") else None
            if theirs in (None, own) or (name in FACES and theirs == "plugin"):
                continue
            if FLOOR[theirs] >= FLOOR[own]:
                wrong.append(f"{name} imports {module}")
    assert not wrong


def test_the_science_needs_pytorch_alone():
    """So it knows no fairseq."""
    allowed = {*sys.stdlib_module_names, "torch", "triton", "tupe"}
    for name, path in FILES.items():
        if room(module_of(name)) in ("systems", "layers", "position", "attention", "encoder"):
            assert {module.partition(".")[0] for module in imports(path)} <= allowed, name


def test_the_map_names_every_room():
    text = (ROOT / "docs/dev/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"([a-z_]+)(?:\.py|/)", text))
    missing = {name.partition(".")[0] for name in FLOOR} - named - {"__main__"}
    assert not missing
