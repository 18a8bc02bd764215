"""Reading checkpoints: nothing in a file runs, and every refusal is a sentence that names the file."""

import argparse
import io
import os
import pickle
import tarfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tupe.checkpoints.safe_load import safe_load
from tupe.errors import UserError


class Malicious:
    """Unpickling it calls `function`."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("function", "name"),
    [(os.system, f"{os.system.__module__}.system"), (eval, "eval"), (argparse.FileType, "FileType")],
)
def test_code_does_not_run_and_is_named(function, name, zipped, tmp_path):
    witness = tmp_path / "witness"
    argument = f"open({str(witness)!r}, 'w')" if function is eval else f"touch {witness}"
    torch.save({"model": {"weight": torch.ones(2)}, "cfg": Malicious(function, argument)}, tmp_path / "bad.pt",
               _use_new_zipfile_serialization=zipped)  # fmt: skip
    with pytest.raises(UserError, match=rf"bad\.pt .*`[\w.]*{name}`"):
        safe_load(tmp_path / "bad.pt")
    assert not witness.exists()
    torch.load(tmp_path / "bad.pt", weights_only=False)  # what the file does where it is believed
    assert witness.exists() or function is argparse.FileType


def test_what_fairseq_writes_is_read(tmp_path):
    state = {
        "args": argparse.Namespace(arch="roberta", lr=[0.1]),
        "extra_state": {"best": np.float64(0.5), "counts": np.arange(3)},
        "model": {"weight": torch.arange(3.0)},
    }
    torch.save(state, tmp_path / "good.pt")
    read = safe_load(str(tmp_path / "good.pt"))
    assert read["args"] == state["args"]
    assert read["extra_state"]["best"] == 0.5
    assert read["extra_state"]["counts"].tolist() == [0, 1, 2]
    assert torch.equal(read["model"]["weight"], state["model"]["weight"])


def test_the_process_allows_no_more_than_before(tmp_path):
    torch.save({"args": argparse.Namespace()}, tmp_path / "good.pt")
    safe_load(tmp_path / "good.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace"):
        torch.load(tmp_path / "good.pt", weights_only=True)


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"there is no checkpoint .*none\.pt"):
        safe_load(tmp_path / "none.pt")


def test_folder(tmp_path):
    with pytest.raises(UserError, match=r"is a folder: give a checkpoint, such as .*checkpoint_last\.pt"):
        safe_load(tmp_path)


def test_a_tensor_is_no_checkpoint(tmp_path):
    torch.save(torch.ones(3), tmp_path / "tensor.pt")
    with pytest.raises(UserError, match=r"tensor\.pt holds a Tensor"):
        safe_load(tmp_path / "tensor.pt")


def test_archives_that_weights_only_does_not_cover(tmp_path):
    """Before PyTorch 2.6 `weights_only` let TorchScript and tar files through."""
    torch.jit.script(torch.nn.Linear(1, 1)).save(str(tmp_path / "script.pt"))
    with tarfile.open(tmp_path / "tar.pt", "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    for name in ("script.pt", "tar.pt"):
        with pytest.raises(UserError, match=rf"{name} is a TorchScript or tar archive"):
            safe_load(tmp_path / name)


def torch_file(zipped):
    whole = io.BytesIO()
    torch.save({"model": {"weight": torch.ones(200)}}, whole, _use_new_zipfile_serialization=zipped)
    return whole.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"hello\n", b"", b"PK\x05\x06" + bytes(18), torch_file(zipped=True)[:1000], torch_file(zipped=False)[:1000]],
)
def test_what_is_no_checkpoint_is_said_in_words(data, tmp_path):
    (tmp_path / "other.pt").write_bytes(data)
    said = rf"other\.pt cannot be read as a checkpoint \({len(data):,} bytes\): it is cut short, damaged or"
    with pytest.raises(UserError, match=said):
        safe_load(tmp_path / "other.pt")


def cut(data):
    return st.integers(0, len(data) - 1).map(lambda length: data[:length])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut(torch_file(zipped=True)) | cut(torch_file(zipped=False)) | st.binary(max_size=100))
def test_damaged_or_other_file(tmp_path, data):
    (tmp_path / "damaged.pt").write_bytes(data)
    with pytest.raises(UserError, match=r"damaged\.pt"):
        safe_load(tmp_path / "damaged.pt")
