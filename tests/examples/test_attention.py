"""The example runs as it is printed, also in an environment that has PyTorch and nothing else of what is declared."""

import subprocess
import sys

from tests.commands import ROOT

#: Finds nothing but the standard library, PyTorch with what PyTorch requires, and this package.
ONLY_TORCH = """
import importlib.abc, importlib.metadata, re, runpy, sys

def required(name, found):
    if name not in found:
        found.add(name)
        for line in importlib.metadata.requires(name) or () if name in installed else ():
            if "extra ==" not in line:
                required(re.match(r"[\\w.-]+", line)[0].lower().replace("_", "-"), found)
    return found

packages = importlib.metadata.packages_distributions()
installed = {name.lower().replace("_", "-") for names in packages.values() for name in names}
allowed = required("torch", {"numpy", "tupe"})
refused = {module for module, names in packages.items()
           if not {name.lower().replace("_", "-") for name in names} & allowed} - sys.stdlib_module_names
assert {"fairseq", "omegaconf", "hydra", "sentencepiece", "yaml", "tqdm"} <= refused, refused

class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *more):
        return None if name.partition(".")[0] in refused else self.finder.find_spec(name, *more)

for name in list(sys.modules):  # what a `.pth` file of the environment imported
    if name.partition(".")[0] in refused:
        del sys.modules[name]
sys.meta_path[:] = map(Finder, sys.meta_path)
sys.path.insert(0, "")
runpy.run_path("examples/attention.py")
import tupe.attention, tupe.position
"""


def test_the_example_needs_pytorch_alone():
    done = subprocess.run([sys.executable, "-c", ONLY_TORCH], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("features (2, 10, 64), bias (4, 10, 10)\n")
