import os

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

from tupe.errors import UserError
from tupe.files import check_checksums, check_indexed, check_sizes, checksums, sizes


def test_sizes_then_checksums(tmp_path):
    (tmp_path / "shard1").mkdir()
    names = ["dict.txt", "shard1/train.bin"]
    for name in names:
        (tmp_path / name).write_text("words")
    bytes_, sums = sizes(tmp_path, names), checksums(tmp_path, names)
    check_sizes(tmp_path, bytes_, "us")
    check_checksums(tmp_path, sums, "us")
    (tmp_path / names[1]).write_text("wards")
    check_sizes(tmp_path, bytes_, "us")
    with pytest.raises(UserError, match=r"train\.bin is not the one that us wrote: prepare it again"):
        check_checksums(tmp_path, sums, "us")
    (tmp_path / names[1]).write_text("word")
    with pytest.raises(UserError, match=r"train\.bin has 4 bytes, not the 5 that us wrote"):
        check_sizes(tmp_path, bytes_, "us")
    (tmp_path / names[0]).unlink()
    with pytest.raises(UserError, match=r"dict\.txt is missing"):
        check_sizes(tmp_path, bytes_, "us")


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "a\0"])
def test_a_manifest_names_nothing_elsewhere(name, tmp_path):
    (tmp_path.parent / "a").touch()
    for check, value in ((check_sizes, 0), (check_checksums, "")):
        with pytest.raises(UserError, match="not in that folder"):
            check(tmp_path, {name: value}, "us")


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("lengths", [[], [3], [3, 0, 7], [5, 0]])
def test_binary_data_and_its_index(dtype, lengths, tmp_path):
    prefix = tmp_path / "train.en"
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
    for length in lengths:
        builder.add_item(torch.arange(length))
    builder.finalize(f"{prefix}.idx")
    assert check_indexed(prefix, "us") == len(lengths)
    for suffix in ("idx", "bin"):
        path = tmp_path / f"train.en.{suffix}"
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole + b"x", whole[: len(whole) // 2], b""):
            if damaged != whole:
                path.write_bytes(damaged)
                with pytest.raises(UserError, match=r"train\.en\.(idx|bin) .*: prepare it again\."):
                    check_indexed(prefix, "us")
        path.unlink()
        with pytest.raises(UserError, match=rf"there is no .*train\.en\.{suffix}: give what us wrote"):
            check_indexed(prefix, "us")
        os.mkfifo(path)
        with pytest.raises(UserError, match="is a pipe"):
            check_indexed(prefix, "us")
        path.unlink()
        path.write_bytes(whole)
    index = tmp_path / "train.en.idx"
    whole = index.read_bytes()
    for position, said in ((0, "no index"), (9, "another version"), (17, "another version")):
        index.write_bytes(whole[:position] + b"\xff" + whole[position + 1 :])
        with pytest.raises(UserError, match=said):
            check_indexed(prefix, "us")
