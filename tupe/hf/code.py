"""Write the code that exported models carry: files of this package, in one folder, with relative imports."""

import contextlib
import inspect
import re
from importlib import metadata
from pathlib import Path

from tupe.position.registry import REGISTRY

_PACKAGE = Path(__file__).parents[1]
SHIPPED = (
    *sorted((_PACKAGE / "position").glob("*.py")),
    *(_PACKAGE / "attention" / f"{name}.py" for name in ("biased", "factors", "flex", "packed", "reference", "sdpa")),
    *sorted((_PACKAGE / "encoder").glob("[!_]*.py")),
    _PACKAGE / "layers.py",
    *(_PACKAGE / "hf" / f"{name}_tupe.py" for name in ("configuration", "modeling")),
)


def flat(path: Path) -> str:
    """Return a file's name in an exported folder: `position/bias.py` is `position_bias.py`."""
    *folders, name = path.relative_to(_PACKAGE).with_suffix("").parts
    return "_".join([folder for folder in folders if folder != "hf"] + [name] * (name != "__init__")) + ".py"


def relative(code: str) -> str:
    """Make the imports of this package relative to the folder."""
    code = re.sub(r"^import tupe.*\n", "", code, flags=re.M)
    return re.sub(r"^from tupe\.([\w.]+) import", lambda m: f"from .{m[1].replace('.', '_')} import", code, flags=re.M)


def write_code(folder: Path) -> None:
    """Write the model code and its license into `folder`, with the files of terms from outside this package."""
    for path in SHIPPED:
        (folder / flat(path)).write_text(relative(path.read_text(encoding="utf-8")), encoding="utf-8")
    terms = (found.term for named in REGISTRY.values() for found in named.values())
    for term in (term for term in terms if not term.__module__.startswith("tupe.")):
        name = term.__module__.replace(".", "_")
        code = Path(inspect.getsourcefile(term)).read_text(encoding="utf-8")
        (folder / f"{name}.py").write_text(relative(code), encoding="utf-8")
        with (folder / "position.py").open("a", encoding="utf-8") as registry:
            registry.write(f"\nfrom .{name} import {term.__name__}  # noqa: E402, F401\n")
    with contextlib.suppress(metadata.PackageNotFoundError):  # the package may be on the path without being installed
        for file in metadata.files("tupe") or ():
            if file.name == "LICENSE":
                (folder / file.name).write_text(file.read_text("utf-8"), encoding="utf-8")
