"""What fairseq writes is read, and changed bytes are refused; tests/contract has more files with code in them."""

import argparse
import contextlib
import io
import pickle

import numpy as np
import pytest
import torch

from tupe.patches.safe_load import safe_load
from tupe.util import UserError


class Number:
    """Unpickling it makes a `bytearray` of so many bytes."""

    def __reduce__(self):
        return bytearray, (10**9,)


def test_what_fairseq_writes_is_read(tmp_path):
    state = {
        "args": argparse.Namespace(arch="roberta", lr=[0.1]),
        "extra_state": {"best": np.float64(0.5), "counts": np.arange(3)},
        "model": {"weight": torch.arange(3.0)},
        "cfg": {"checkpoint": {"save_dir": "runs/exp(3)"}, "task": argparse.Namespace(data="a (b)")},  # no calls
    }
    torch.save(state, tmp_path / "good.pt")
    read = safe_load(str(tmp_path / "good.pt"))
    assert read["args"] == state["args"]
    assert read["extra_state"]["best"] == 0.5
    assert read["extra_state"]["counts"].tolist() == [0, 1, 2]
    assert torch.equal(read["model"]["weight"], state["model"]["weight"])
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace"):  # the process allows no more than before
        torch.load(tmp_path / "good.pt", weights_only=True)


def torch_file(zipped, size=200):
    whole = io.BytesIO()
    torch.save({"model": {"weight": torch.ones(size)}}, whole, _use_new_zipfile_serialization=zipped)
    return whole.getvalue()


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path):
    whole, path = torch_file(zipped=True, size=4), tmp_path / "flipped.pt"
    path.write_bytes(whole)
    for bit in range(8 * len(whole)):
        with path.open("r+b") as file:  # a file written anew would wait for the disk
            file.seek(max(0, bit // 8 - 1))
            file.write(whole[max(0, bit // 8 - 1) : bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]))
        try:
            state = safe_load(path)
        except Exception:
            continue
        # in bytes between the parts of the archive, or in dates
        assert list(state) == ["model"] and torch.equal(state["model"]["weight"], torch.ones(4)), bit


def test_a_file_without_checksums_is_read(tmp_path):
    with contextlib.ExitStack() as after:
        after.callback(torch.serialization.set_crc32_options, torch.serialization.get_crc32_options())
        torch.serialization.set_crc32_options(False)
        torch.save({"model": {"weight": torch.ones(2)}}, tmp_path / "fast.pt")
    assert torch.equal(safe_load(tmp_path / "fast.pt")["model"]["weight"], torch.ones(2))


def overlapping(data):
    """Let the list of parts name the tensor's bytes a second time, as those of the byte order, without checksums."""
    data = bytearray(data)
    for mark, offset in ((b"PK\3\4", 14), (b"PK\1\2", 16)):
        at = -1
        while (at := data.find(mark, at + 1)) >= 0:
            data[at + offset : at + offset + 4] = bytes(4)
    tensor, order = data.rindex(b"archive/data/0"), data.rindex(b"archive/byteorder")
    for first, last in ((20, 28), (42, 46)):  # sizes and place of a part
        data[order - 46 + first : order - 46 + last] = data[tensor - 46 + first : tensor - 46 + last]
    return data


def test_an_archive_whose_parts_overlap(tmp_path):
    (tmp_path / "other.pt").write_bytes(overlapping(torch_file(zipped=True, size=10_000)))
    with pytest.raises(UserError, match="damaged"):
        safe_load(tmp_path / "other.pt")


def laughs(levels):
    laugh = ["ha"]
    for _ in range(levels):
        laugh = [laugh] * 10
    return laugh


def circle():
    names = []
    names.append(names)
    return names


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    "bomb",
    [
        lambda: torch.zeros(1).expand(10**9),
        lambda: torch.zeros(4000).as_strided((1000, 1000), (1, 1)),
        lambda: [*torch.zeros(10**5).expand(20, -1)],
        lambda: laughs(12),
        circle,
        Number,
    ],
    ids=["stride 0", "overlapping rows", "one storage often", "lists of lists", "a circle", "a number"],
)
def test_what_grows_in_memory(bomb, zipped, tmp_path):
    part = {"model": {}, "last_optimizer_state": {"state": {0: {"exp_avg": bomb()}}}, "cfg": {"model": bomb()}}
    torch.save(part, tmp_path / "bomb.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(UserError, match="would take far more memory"):
        safe_load(tmp_path / "bomb.pt")


def test_tied_weights_are_read(tmp_path):
    weight = torch.arange(1000.0)
    names = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight")
    torch.save({"model": dict.fromkeys(names, weight)}, tmp_path / "tied.pt")
    assert all(torch.equal(tensor, weight) for tensor in safe_load(tmp_path / "tied.pt")["model"].values())


@pytest.mark.parametrize(("field", "unused", "used"), [("rotary_scaling", "none", "yarn"), ("log_length", 0, 512)])
def test_a_term_that_is_gone(field, unused, used, tmp_path):
    """A field that no model reads would change what a model computes in silence."""
    torch.save({"cfg": {"model": {field: unused}}}, tmp_path / "old.pt")
    safe_load(tmp_path / "old.pt")
    torch.save({"cfg": {"model": {field: used}}}, tmp_path / "old.pt")
    with pytest.raises(UserError, match=f"has {field}={used!r}, which this version no longer computes"):
        safe_load(tmp_path / "old.pt")
