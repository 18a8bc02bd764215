"""Files that would run code, settings that fairseq would evaluate, damaged files: all are refused, and nothing runs."""

import cProfile
import functools
import io
import logging
import os
import pickle
import shutil
import sqlite3
import subprocess
import tarfile
import timeit
import zipfile
from argparse import FileType, Namespace
from pathlib import Path

import fairseq.utils
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.contract import aliases as cli
from tests.contract.aliases import fails, opened, refused, safe_load
from tests.contract.conftest import RAW


class Call:
    """Unpickling it calls `function`."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def code(path):
    return f"open({str(path)!r}, 'w').close()"


#: Calls that make the file `path`.
HOSTILE = {
    "os.system": lambda path: Call(os.system, f"touch {path}"),
    "os.popen": lambda path: Call(list, Call(os.popen, f"touch {path}")),
    "os.mkdir": lambda path: Call(os.mkdir, str(path)),
    "os.open": lambda path: Call(os.open, str(path), os.O_CREAT),
    "os.spawnlp": lambda path: Call(os.spawnlp, os.P_WAIT, "touch", "touch", str(path)),
    "eval": lambda path: Call(eval, code(path)),
    "exec": lambda path: Call(exec, code(path)),
    "open": lambda path: Call(open, str(path), "w"),
    "map": lambda path: Call(list, Call(map, eval, [code(path)])),
    "partial": lambda path: Call(functools.partial(os.system, f"touch {path}")),
    "reduce": lambda path: Call(functools.reduce, open, [str(path), "w"]),
    "FileType": lambda path: Call(FileType.__call__, Call(FileType, "w"), str(path)),
    "subprocess.run": lambda path: Call(subprocess.run, ["touch", str(path)]),
    "subprocess.call": lambda path: Call(subprocess.check_call, ["touch", str(path)]),
    "subprocess.getoutput": lambda path: Call(subprocess.getoutput, f"touch {path}"),
    "shutil.copy": lambda path: Call(shutil.copy, __file__, str(path)),
    "pickle.loads": lambda path: Call(pickle.loads, pickle.dumps(Call(os.system, f"touch {path}"))),
    "torch.save": lambda path: Call(torch.save, [1], str(path)),
    "numpy.array": lambda path: Call(np.ndarray.tofile, np.ones(1), str(path)),
    "numpy.memmap": lambda path: Call(np.memmap, str(path), "uint8", "w+", 0, (1,)),
    "FileHandler": lambda path: Call(logging.FileHandler, str(path)),
    "ZipFile": lambda path: Call(zipfile.ZipFile, str(path), "w"),
    "TarFile": lambda path: Call(tarfile.open, str(path), "w"),
    "sqlite3": lambda path: Call(sqlite3.connect, str(path)),
    "timeit": lambda path: Call(timeit.timeit, code(path), "pass", timeit.default_timer, 1),
    "cProfile": lambda path: Call(cProfile.run, "1", str(path)),
    "eval_str_list": lambda path: Call(fairseq.utils.eval_str_list, f"[{code(path)} or 1]"),
    "eval_bool": lambda path: Call(fairseq.utils.eval_bool, code(path)),
    "Path.touch": lambda path: Call(Path.touch, path),
}


@pytest.fixture(scope="module")
def state(checkpoint):
    return torch.load(checkpoint, weights_only=True)


def write(state, path, part, value, **options):
    torch.save({**state, part: {**(state.get(part) or {}), "more": value}}, path, **options)
    return path


def commands(path, good, data, glue, out):
    """Run all commands that read a pre-trained checkpoint; `good` is another."""
    yield from cli.readers(path, data, glue, out)
    yield cli.tupe_command("describe", path, check=False)
    yield cli.tupe_command("convert", "average", path, good, out / "average.pt", check=False)


def test_what_training_wrote_is_read(state, checkpoint, data, glue, tmp_path):
    """Else the refusals below would say nothing."""
    for zipped in (True, False):
        path = tmp_path / "good.pt"
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        assert safe_load(path)["model"] and opened(path, data)
    for done in commands(path, checkpoint, data, glue, tmp_path):
        assert not done.returncode, f"{done.args}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize(("number", "name"), enumerate(HOSTILE), ids=HOSTILE)
def test_code_in_a_file_does_not_run(number, name, state, data, tmp_path):
    """Wherever it stands, in files of both forms; a reader that trusts the file does run it."""
    witness, part = tmp_path / "witness", ("cfg", "model", "extra_state", "args")[number % 4]
    zipped = {"_use_new_zipfile_serialization": number % 3 > 0}
    path = write(state, tmp_path / "bad.pt", part, HOSTILE[name](witness), **zipped)
    assert fails(safe_load, path) and fails(opened, path, data) and not witness.exists()
    torch.load(path, weights_only=False)
    assert witness.exists()


def test_no_command_runs_it(state, checkpoint, finetuned, data, glue, tmp_path):
    witness = tmp_path / "witness"
    hostile = HOSTILE["os.system"](witness)
    path = write(state, tmp_path / "bad.pt", "cfg", hostile)
    for done in commands(path, checkpoint, data, glue, tmp_path):
        assert done.returncode and not witness.exists(), done.args
    write(torch.load(finetuned[0] / "checkpoint_best.pt", weights_only=True), path, "cfg", hostile)
    release = tmp_path / "release.pt"
    torch.save({"args": Namespace(arch="bert_base", more=hostile), "model": {}}, release)
    bert = shutil.copytree(RAW / "bert", tmp_path / "bert")
    weights = bert / "model.safetensors"
    torch.save({**load_file(weights), "more": hostile}, bert / "pytorch_model.bin")
    weights.unlink()
    for command in (("predict", path, glue / "CoLA"), ("convert", "release", release), ("import", bert)):
        refused(cli.tupe_command, *command, tmp_path / command[0])
        assert not witness.exists(), command


@pytest.mark.parametrize("form", ["args", "args beside cfg", "cfg"])
def test_settings_that_fairseq_would_evaluate(form, state, data, glue, tmp_path):
    """fairseq prefers `args`, and evaluates the layers of `fconv`."""
    witness, path = tmp_path / "witness", tmp_path / "bad.pt"
    layers = {"encoder_layers": code(witness), "decoder_layers": code(witness)}
    model = {"cfg": {**state["cfg"], "model": {**state["cfg"]["model"], **layers, "_name": "fconv"}}}
    args = Namespace(arch="fconv", task="masked_lm", criterion="masked_lm", data=str(data), **layers)
    changes = {"args": {"args": args, "cfg": None}, "args beside cfg": {"args": args}, "cfg": model}
    torch.save({**state, **changes[form]}, path)
    assert fails(opened, path, data)
    refused(cli.tupe_command, "describe", path)
    refused(cli.finetune, "CoLA", path, glue, tmp_path / "run")
    refused(cli.tupe_command, "export", path, data, tmp_path / "exported")
    assert cli.validate(path, data).returncode
    assert not witness.exists()


def damaged(kind, whole, weights):
    """The bytes of a checkpoint, changed."""
    if kind == "a flipped byte":  # of a weight, which PyTorch reads as it is
        place = whole.index(weights) + len(weights) // 2
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    if kind == "a folder":  # says the archive's list of a tensor, of which PyTorch then reads nothing
        place = whole.rindex(b"PK\1\2", 0, whole.rindex(b"/data/0")) + 38
        return whole[:place] + bytes([whole[place] | 0x10]) + whole[place + 1 :]
    if kind == "cut short":
        return whole[: len(whole) // 2]
    made = io.BytesIO()
    if kind == "compressed":
        with zipfile.ZipFile(io.BytesIO(whole)) as stored, zipfile.ZipFile(made, "w") as archive:
            for member in stored.infolist():
                archive.writestr(member.filename, stored.read(member), zipfile.ZIP_DEFLATED)
    else:
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), made)
    return made.getvalue()


@pytest.mark.parametrize("kind", ["a flipped byte", "a folder", "compressed", "TorchScript", "cut short"])
def test_damaged_files_are_refused(kind, checkpoint, state, data, glue, tmp_path):
    weights, path = max(state["model"].values(), key=torch.Tensor.numel), tmp_path / "bad.pt"
    path.write_bytes(damaged(kind, checkpoint.read_bytes(), weights.numpy().tobytes()))
    assert fails(safe_load, path) and fails(opened, path, data)
    for done in commands(path, checkpoint, data, glue, tmp_path) if kind == "a flipped byte" else ():
        assert done.returncode, done.args
