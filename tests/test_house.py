"""What may import what (CONTRIBUTING.md): the rooms stand on floors, and nothing imports from a floor above its own."""

import ast
import re
import subprocess
import sys

import pytest

from tests.commands import ROOT

#: From the bottom.
FLOORS = (
    ("errors", "cores", "systems", "tracing"),
    ("files", "layers", "safe_load", "user_dir", "hydra_train"),
    ("position", "data"),
    ("attention", "optim", "criterions", "fairseq_patches"),
    ("models", "tasks", "transformers"),
    ("plugin", "checkpoints", "plan"),
    ("analysis", "inference", "doctor"),
    ("experiments",),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
#: What fairseq imports on `--user-dir`: they alone bring in the whole plugin.
FACES = ("tupe/models/__init__.py", "tupe/tasks/__init__.py")
WITHOUT_FAIRSEQ = (
    *("errors", "cores", "systems", "tracing", "files", "layers", "safe_load"),
    *("position", "attention", "transformers"),
)
#: Shipped with exported models, where it is not called `tupe.transformers.modeling_tupe`.
SHIPPED = "modeling_tupe.py"


def room(module):
    """`tupe.models.config` is in `models`."""
    return next(iter(module.split(".")[1:]), None)


def imports(path):
    """The modules that a file imports, at its top or within its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


@pytest.mark.parametrize("without", WITHOUT_FAIRSEQ)
def test_the_science_knows_no_fairseq(without):
    wrong = {"fairseq", "fairseq_cli", "hydra", "omegaconf"}
    allowed = {"tupe/errors.py": {"hydra"}}  # for an exception's base, where Hydra is installed
    for name, path in FILES.items():
        if room(module_of(name)) == without:
            found = {module.partition(".")[0] for module in imports(path)} & wrong
            assert found <= allowed.get(name, set()), name


def test_the_science_needs_pytorch_alone():
    allowed = {*sys.stdlib_module_names, "torch", "triton", "tupe"}
    for name, path in FILES.items():
        if room(module_of(name)) in ("position", "attention"):
            assert {module.partition(".")[0] for module in imports(path)} <= allowed, name


def test_attention_runs_where_there_is_no_fairseq():
    code = (
        "import sys\n"
        "for name in ('fairseq', 'hydra', 'omegaconf'): sys.modules[name] = None\n"
        "import torch, tupe.attention, tupe.position as p\n"
        "bias = p.PositionBias(p.UntiedAbsolute(9, 8, 2), p.BucketedRelative(2), p.Reset(2, 8))(9).bias\n"
        "x = torch.zeros(1, 2, 9, 4)\n"
        "print(*tupe.attention.biased_attention(x, x, x, bias, scale=1.0).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "2", "9", "4"]


def test_the_map_names_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"([a-z_]+)(?:\.py|/)", text))
    missing = {name.partition(".")[0] for name in FLOOR} - named - {"__main__"}
    assert not missing
