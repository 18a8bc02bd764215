"""Importing the plugin changes nothing of fairseq, PyTorch or the process; checkpoints are read safely all the same."""

import json
import subprocess
import sys

from tests.commands import ROOT, environment
from tests.patches.conftest import trainer

#: Its `changed()` prints what differs since the beginning: attributes of modules and classes, hooks, the environment.
PROGRAM = """
import inspect, os, sys
import torch, hydra._internal.utils, hydra.core.utils
import fairseq, fairseq.checkpoint_utils, fairseq.hub_utils, fairseq.trainer
import fairseq.data.data_utils, fairseq.data.token_block_dataset, fairseq.data.iterators

def seen():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHINDUCTOR_")}
    found = {"excepthook": sys.excepthook, "environment": environment}  # without what PyTorch sets for its compiler
    hooks = vars(torch.nn.modules.module)
    found |= {name: dict(table) for name, table in hooks.items() if name.startswith("_global_") and table is not None
              and isinstance(table, dict)}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("fairseq", "hydra"):
            for attribute, value in list(vars(module).items()):
                if not inspect.ismodule(value):
                    found[f"{name}.{attribute}"] = value
                if inspect.isclass(value):
                    inner = vars(value).items()
                    found |= {f"{name}.{attribute}.{key}": part for key, part in inner if key != "__slotnames__"}
    return found

modules, before = set(sys.modules), seen()

def changed():
    assert "fairseq_cli" not in sys.modules
    after = seen()
    same = lambda one, other: one is other or (isinstance(one, dict) and one == other)
    other = [name for name in before if name not in after or not same(before[name], after[name])]
    new = [name for name in after if name not in before and name.rpartition(".")[0] in modules | before.keys()]
    print(other + new)

"""
IMPORTS = """
import tupe, tupe.models, tupe.plugin, tupe.position, tupe.hf, tupe.patches
changed()
tupe.patches.install.install()
changed()
"""
READS = """
import json
from tupe.models import TupeModel
folder, data = json.loads(sys.argv[1])
hub = TupeModel.from_pretrained(folder, "checkpoint_last.pt", data, bpe=None)
from tupe.checkpoints.load import open_checkpoint
open_checkpoint(folder + "/checkpoint_last.pt").model(data)
changed()
"""


def left(work, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + work, *arguments],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if line.startswith("[")]


def test_importing_changes_nothing_and_a_run_does():
    """What a run changes is seen; otherwise nothing would be, whatever happens."""
    imported, installed = left(IMPORTS)
    assert imported == "[]"
    for name in ("fairseq.checkpoint_utils.load_checkpoint_to_cpu", "fairseq.trainer.Trainer",
                 "fairseq.checkpoint_utils.torch_persistent_save", "fairseq.file_io.PathManager.copy"):  # fmt: skip
        assert f"'{name}'" in installed


def test_a_notebook_reads_checkpoints_and_leaves_nothing(corpus, monkeypatch, tmp_path):
    trainer(corpus, monkeypatch)(tmp_path)
    assert left(READS, json.dumps([str(tmp_path), str(corpus)])) == ["[]"]
