"""What fairseq writes is read, and changed bytes are refused; tests/contract has more files with code in them."""

import argparse
import contextlib
import pickle

import numpy as np
import pytest
import torch

from tupe.patches.safe_load import safe_load
from tupe.util import UserError


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
    with pytest.raises(pickle.UnpicklingError, match=r"argparse\.Namespace"):  # the process allows no more than before
        torch.load(tmp_path / "good.pt", weights_only=True)


@pytest.mark.slow
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path):
    path = tmp_path / "flipped.pt"
    torch.save({"model": {"weight": torch.ones(4)}}, path)
    whole = path.read_bytes()
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


@pytest.mark.parametrize(("field", "unused", "used"), [("rotary_scaling", "none", "yarn"), ("log_length", 0, 512)])
def test_a_term_that_is_gone(field, unused, used, tmp_path):
    """A field that no model reads would change what a model computes in silence."""
    torch.save({"cfg": {"model": {field: unused}}}, tmp_path / "old.pt")
    safe_load(tmp_path / "old.pt")
    torch.save({"cfg": {"model": {field: used}}}, tmp_path / "old.pt")
    with pytest.raises(UserError, match=f"has {field}={used!r}, which this version no longer computes"):
        safe_load(tmp_path / "old.pt")
