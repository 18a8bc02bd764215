"""Examine the installation, which needs no GPU: compiler, headers, versions that belong together, disk, cores."""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from tupe.attention.verification.machine import package_version
from tupe.attention.verification.record import cache_folder
from tupe.cores import available_cores, processor
from tupe.doctor.finding import Findings, failed, note, ok, warning

_PACKAGES = ("torch", "triton", "fairseq-fixed", "hydra-core", "omegaconf", "numpy", "transformers", "sentencepiece")
#: Names under which a package is imported, where they differ.
_MODULES = {"fairseq-fixed": "fairseq", "hydra-core": "hydra"}
#: Imports what its arguments name; prints each name, a tab and what is wrong with it.
_IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print(name, "", sep="\\t", flush=True)
    except Exception as error:
        print(name, " ".join(f"{type(error).__name__}: {error}".split()), sep="\\t", flush=True)
"""
_ENOUGH_DISK = 5 << 30  # bytes: a checkpoint of `base` with its optimizer is 1.3 GB, and several are kept


def examine() -> Findings:
    yield compiler()
    yield headers()
    yield from versions()
    yield from imports()
    yield sentencepiece()
    yield disk(Path.cwd())
    yield cores()


def compiler():
    """Find the C++ compiler, which fairseq and Triton need."""
    named = os.environ.get("CXX", "c++").split(" ")[0]
    found = shutil.which(named)
    if found is None:
        return failed("compiler", f"there is no {named}: install one (Debian and Ubuntu: build-essential)")
    done = subprocess.run([found, "--version"], capture_output=True, text=True)
    return ok("compiler", (done.stdout.splitlines() or [found])[0], path=found)


def headers():
    """Find Python's headers, which Triton needs to compile the launchers of its kernels."""
    path = Path(sysconfig.get_path("include")) / "Python.h"
    if path.exists():
        return ok("Python's headers", str(path))
    return failed("Python's headers", f"there is no {path}: install them (Debian and Ubuntu: python3-dev)")


def versions() -> Findings:
    """List versions, and what the packages themselves require of each other that does not hold."""
    found = {name: package_version(name) for name in _PACKAGES}
    text = ", ".join(f"{name} {number}" for name, number in found.items())
    yield ok("versions", f"Python {platform.python_version()}, {text}", packages=found, platform=platform.platform())
    for name in ("tupe", "fairseq-fixed", "torch", "transformers"):
        for wrong in conflicts(name):
            yield failed("versions", f"{wrong}: pip install it, or make a new environment with scripts/quickstart.sh")


def conflicts(name: str) -> list[str]:
    """Return the requirements of a package, without extras, that are not installed or have another version.

    torchaudio, which fairseq requires, may be absent: nothing here uses it.
    """
    try:
        wanted = requires(name) or []
    except PackageNotFoundError:
        return []
    try:
        from packaging.requirements import Requirement
    except ImportError:  # comes with many packages, and not with Python
        return []
    wrong = []
    for each in map(Requirement, wanted):
        if each.marker is not None and not each.marker.evaluate({"extra": ""}):
            continue
        there = package_version(each.name)
        if each.name == "torchaudio" and there == "missing":
            continue
        if there == "missing" or not each.specifier.contains(there, prereleases=True):
            wrong.append(f"{name} requires {each.name}{each.specifier}, and {there} is installed")
    return wrong


def imports() -> Findings:
    """Import what a training needs in one process, and torchaudio, which fairseq brings, in another."""
    names = [_MODULES.get(name, name) for name in _PACKAGES if package_version(name) != "missing"]
    shares = [names] + [["torchaudio"]] * (package_version("torchaudio") != "missing")
    processes = [
        subprocess.Popen([sys.executable, "-c", _IMPORT, *share], stdout=subprocess.PIPE, text=True) for share in shares
    ]
    broken = {}
    for share, process in zip(shares, processes):
        lines = dict(line.split("\t", 1) for line in process.communicate()[0].splitlines() if "\t" in line)
        broken |= {name: said for name in share if (said := lines.get(name, "its import ends the process"))}
    audio = broken.pop("torchaudio", None)
    if audio is not None:
        yield warning(
            "torchaudio",
            f"it does not load ({audio}), at which `import transformers` may fail, and nothing here uses it: "
            "pip uninstall torchaudio",
        )
    for name, said in broken.items():
        yield failed("imports", f"{name} cannot be imported: {said}")
    if not broken:
        yield ok("imports", f"{', '.join(names)}")


def sentencepiece():
    """Train a small SentencePiece model and read a sentence with it."""
    try:
        import sentencepiece as library
    except ImportError as error:
        return failed("SentencePiece", f"it cannot be imported ({error}): pip install sentencepiece")
    words = [*"abcdefghijklmnop", "positions"]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text"
        text.write_text("".join(f"{' '.join(words[i:] + words[:i])}\n" for i in range(len(words))), encoding="utf-8")
        try:
            library.SentencePieceTrainer.train(
                input=str(text), model_prefix=f"{folder}/model", vocab_size=40, hard_vocab_limit=False, minloglevel=2
            )
            tokens = library.SentencePieceProcessor(model_file=f"{folder}/model.model").encode("words", out_type=str)
        except (OSError, RuntimeError) as error:
            return failed("SentencePiece", f"it does not train ({error}): pip install --force-reinstall sentencepiece")
    return ok("SentencePiece", f"it trains, and makes {len(tokens)} tokens of a word")


def disk(folder: Path):
    """Look at the space where checkpoints would go, and at the cache folder of the kernels' records."""
    free = shutil.disk_usage(folder).free
    text, facts = f"{free / 2**30:.0f} GiB free in {folder}", {"free_bytes": free, "cache": str(cache_folder())}
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()):
            pass
    except OSError as error:
        said = f"{text}; {cache_folder()} cannot be written ({error.strerror}): set TUPE_CACHE_DIR"
        return warning("disk", said, **facts)
    if free < _ENOUGH_DISK:
        return warning("disk", f"{text}, where a checkpoint of base takes 1.3 GB: save to another disk", **facts)
    return ok("disk", text, **facts)


def cores():
    """Compare the threads that PyTorch would start with the cores that this process may use."""
    import torch

    cores, threads = available_cores(), torch.get_num_threads()
    text, facts = f"{cores} of {processor()}, PyTorch uses {threads} threads", {"cores": cores, "threads": threads}
    if threads > cores:
        said = f"{text}, which wait for each other by spinning: set OMP_NUM_THREADS={cores}"
        return warning("cores", said, **facts)
    load = os.getloadavg()[0]
    if load > 2 * (os.cpu_count() or 1):
        return note("cores", f"{text}; the machine's load is {load:.0f}, so that threads wait for cores", **facts)
    spins = os.environ.get("GOMP_SPINCOUNT") or os.environ.get("OMP_WAIT_POLICY")
    if cores > 1 and threads > 1 and not spins:
        said = f"{text}; where other processes want these cores set GOMP_SPINCOUNT=100000, as the scripts do"
        return note("cores", said, **facts)
    return ok("cores", text, **facts)
