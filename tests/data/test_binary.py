"""fairseq's binary data is, byte for byte, what `fairseq-preprocess` writes."""

import numpy as np
import pytest
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.conftest import preprocess
from tupe.data import binary
from tupe.errors import UserError
from tupe.files import check_indexed


@pytest.fixture(scope="module")
def by_fairseq(tmp_path_factory):
    folder = tmp_path_factory.mktemp("binary")
    (folder / "symbols").write_text("a 1\nb 1\n")
    (folder / "text").write_text("a b\n\nb x a\n" * 50)
    preprocess(folder / "out", folder / "text", folder / "text", "--srcdict", folder / "symbols")
    return folder / "out/train"


def test_the_same_bytes_as_fairseq(by_fairseq, tmp_path):
    with binary.writer(tmp_path / "train", 6) as add:
        for _ in range(25):
            add(np.array([4, 5, 2, 2, 5, 3, 4, 2] * 2), np.array([3, 1, 4] * 2))
            add(np.empty(0), np.empty(0))
    for kind in ("bin", "idx"):
        assert (tmp_path / f"train.{kind}").read_bytes() == by_fairseq.with_name(f"train.{kind}").read_bytes()
    assert check_indexed(tmp_path / "train", "this") == 150


def test_a_large_dictionary(tmp_path):
    with binary.writer(tmp_path / "train", 70_000) as add:
        add(np.array([69_999, 2]), np.array([2]))
    assert MMapIndexedDataset(str(tmp_path / "train"))[0].tolist() == [69_999, 2]


def test_whole_or_not_there(tmp_path):
    with pytest.raises(ZeroDivisionError), binary.writer(tmp_path / "train", 6) as add:
        add(np.array([2]), np.array([1]))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a,b", "a:b"])
def test_a_name_that_fairseq_reads_as_two(name, tmp_path):
    with pytest.raises(UserError, match=f"takes the '{name[1]}' in .*{name}"):
        binary.check_folder(tmp_path / name)
