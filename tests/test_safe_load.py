"""Reading checkpoints: nothing in a file runs, and every refusal is a sentence that names the file."""

import argparse
import contextlib
import io
import os
import pickle
import tarfile
import warnings
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tupe.errors import UserError
from tupe.safe_load import check_finite, safe_load


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


@pytest.mark.parametrize("path", [None, 3, b"a.pt", ""])
def test_no_path(path):
    with pytest.raises(UserError, match=r"^checkpoint is .*, but must be a path$"):
        safe_load(path)


@pytest.mark.parametrize("also", [argparse.Namespace, "argparse.Namespace"])
def test_classes_that_are_no_list(also):
    with pytest.raises(UserError, match=r"^also is .*, but must be a list of classes$"):
        safe_load("a.pt", also)


def test_folder(tmp_path):
    with pytest.raises(UserError, match=r"is a folder: give a checkpoint, of which it has none$"):
        safe_load(tmp_path)
    for name in ("checkpoint12.pt", "checkpoint_best.pt", "checkpoint_2_9.pt", "other.pt"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"is a folder: give a checkpoint, such as .*/checkpoint_best\.pt$"):
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


def torch_file(zipped, size=200):
    whole = io.BytesIO()
    torch.save({"model": {"weight": torch.ones(size)}}, whole, _use_new_zipfile_serialization=zipped)
    return whole.getvalue()


@pytest.mark.parametrize(
    "data",
    [b"hello\n", b"", b"PK\x05\x06" + bytes(18), torch_file(zipped=True)[:1000], torch_file(zipped=False)[:1000]],
)
def test_what_is_no_checkpoint_is_said_in_words(data, tmp_path):
    (tmp_path / "other.pt").write_bytes(data)
    said = rf"other\.pt cannot be read as a checkpoint \({len(data):,} bytes\): it is cut short, .*by `git lfs pull`"
    with pytest.raises(UserError, match=said):
        safe_load(tmp_path / "other.pt")


@pytest.mark.parametrize(("times", "more"), [(1, b"\0more"), (2, b"")])
def test_what_is_not_of_the_archive_is_damage(times, more, tmp_path):
    (tmp_path / "longer.pt").write_bytes(torch_file(zipped=True) * times + more)
    said = r"longer\.pt (is damaged: something precedes its beginning or follows its end|cannot be read as a ch)"
    with pytest.raises(UserError, match=said):  # two archives are none to later versions of Python
        safe_load(tmp_path / "longer.pt")


def cut(data):
    return st.integers(0, len(data) - 1).map(lambda length: data[:length])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut(torch_file(zipped=True)) | cut(torch_file(zipped=False)) | st.binary(max_size=100))
def test_damaged_or_other_file(tmp_path, data):
    (tmp_path / "damaged.pt").write_bytes(data)
    with pytest.raises(UserError, match=r"damaged\.pt"):
        safe_load(tmp_path / "damaged.pt")


@pytest.mark.slow
def test_a_flipped_bit_is_said_or_changes_nothing(tmp_path):
    whole, path = torch_file(zipped=True, size=4), tmp_path / "flipped.pt"
    path.write_bytes(whole)
    for bit in range(8 * len(whole)):
        with path.open("r+b") as file:  # a file written anew would wait for the disk
            file.seek(max(0, bit // 8 - 1))
            file.write(whole[max(0, bit // 8 - 1) : bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]))
        try:
            state = safe_load(path)
        except UserError as error:
            assert "flipped.pt" in str(error)
        else:  # in bytes between the parts of the archive, or in dates
            assert list(state) == ["model"] and torch.equal(state["model"]["weight"], torch.ones(4)), bit


def test_a_tensor_that_claims_to_be_a_folder(tmp_path):
    """PyTorch takes the attribute at its word, reads nothing, and leaves in the tensor what memory held before."""
    data = bytearray(torch_file(zipped=True))
    attributes = data.rindex(b"archive/data/0") - 8  # in the list of parts at the end of the archive
    data[attributes] |= 0x10
    (tmp_path / "folder.pt").write_bytes(data)
    with pytest.raises(UserError, match=r"folder\.pt cannot be read as a checkpoint"):
        safe_load(tmp_path / "folder.pt")


def test_a_flipped_weight_names_the_damage(tmp_path):
    data = torch_file(zipped=True)
    place = data.index(np.ones(200, np.float32).tobytes())
    (tmp_path / "flipped.pt").write_bytes(data[:place] + b"\1" + data[place + 1 :])
    with pytest.raises(UserError, match=r"flipped\.pt is damaged: '[^']*data/0' in it is not what was written"):
        safe_load(tmp_path / "flipped.pt")


def test_a_file_without_checksums_is_read(tmp_path):
    with contextlib.ExitStack() as after:
        after.callback(torch.serialization.set_crc32_options, torch.serialization.get_crc32_options())
        torch.serialization.set_crc32_options(False)
        torch.save({"model": {"weight": torch.ones(2)}}, tmp_path / "fast.pt")
    assert torch.equal(safe_load(tmp_path / "fast.pt")["model"]["weight"], torch.ones(2))


def test_a_compressed_archive_is_none_of_torch_save(tmp_path):
    (tmp_path / "stored.pt").write_bytes(torch_file(zipped=True))
    with zipfile.ZipFile(tmp_path / "stored.pt") as stored, zipfile.ZipFile(tmp_path / "bomb.pt", "w") as bomb:
        for member in stored.infolist():
            bomb.writestr(member.filename, stored.read(member), zipfile.ZIP_DEFLATED)
    with pytest.raises(UserError, match=r"bomb\.pt cannot be read as a checkpoint"):
        safe_load(tmp_path / "bomb.pt")


@pytest.mark.parametrize("protocol", [2, 4])
def test_no_warning_precedes_the_sentence(protocol, tmp_path):
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Malicious(os.system, "true"), protocol))
    with warnings.catch_warnings(record=True) as warned, pytest.raises(UserError, match=r"old\.pt"):
        warnings.simplefilter("always")
        safe_load(tmp_path / "old.pt")
    assert not warned


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_named(value, dtype):
    weights = {"whole": torch.ones(3, dtype=dtype), "ids": torch.arange(3), "empty": torch.empty(0)}
    check_finite({**weights, "version": torch.tensor(3)}, "run.pt")
    weights["layer.bias"] = torch.tensor([[0.0, 1.0], [value, 0.0]], dtype=dtype)
    with pytest.raises(UserError, match=r"run\.pt holds weights that are NaN or infinite, first layer\.bias: "):
        check_finite(weights, "run.pt")


def test_weights_that_are_no_tensors_are_named():
    with pytest.raises(UserError, match=r"^a\.pt holds a list, first in fc\.bias, and weights are tensors of real"):
        check_finite({"fc.bias": [1.0]}, "a.pt")


def test_weights_that_are_complex_are_named():
    with pytest.raises(UserError, match=r"run\.pt holds complex numbers, first in layer\.bias, "):
        check_finite({"whole": torch.ones(3), "layer.bias": torch.ones(3, dtype=torch.complex64)}, "run.pt")


def test_a_tensor_larger_than_its_memory_takes_no_time():
    check_finite({"weight": torch.zeros(1).expand(1 << 40)}, "run.pt")


def test_a_file_of_zeros_is_no_archive(tmp_path):
    """A machine that crashed left it."""
    (tmp_path / "zeros.pt").write_bytes(bytes(20_000))
    with pytest.raises(UserError, match=r"zeros\.pt cannot be read as a checkpoint \(20,000 bytes\)"):
        safe_load(tmp_path / "zeros.pt")
