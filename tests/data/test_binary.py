"""fairseq's binary data is, byte for byte, what `fairseq-preprocess` writes."""

import os
import resource
import struct

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder

from tests.conftest import preprocess
from tupe.data import binary
from tupe.data.binary import check_indexed, check_open_files, is_indexed
from tupe.errors import UserError


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


SIZES = [3, 1, 4, 2, 2]  # of the sequences that are damaged below
POINTERS = 26 + 4 * len(SIZES)


@pytest.fixture
def whole(tmp_path):
    with binary.writer(tmp_path / "train", 6) as add:
        add(np.arange(sum(SIZES)) % 6, np.array(SIZES))
    return tmp_path / "train"


def overwrite(path, offset, form, value):
    content = bytearray(path.read_bytes())
    struct.pack_into(form, content, offset, value)
    path.write_bytes(content)


@pytest.mark.parametrize("block", [1, 2, 1 << 20])  # sequences at a time
@pytest.mark.parametrize("sequence", range(len(SIZES)))
@pytest.mark.parametrize(
    ("first", "step", "form", "value"),
    [
        (26, 4, "<i", -5),
        (26, 4, "<i", 0),
        (26, 4, "<i", 1 << 30),
        (POINTERS, 8, "<q", -8),
        (POINTERS, 8, "<q", 1 << 40),
    ],
)
def test_an_index_lies_anywhere(first, step, form, value, sequence, block, whole, monkeypatch):
    monkeypatch.setattr(binary, "_BLOCK", block)
    assert check_indexed(whole, "us") == len(SIZES)
    overwrite(whole.with_suffix(".idx"), first + step * sequence, form, value)
    with pytest.raises(
        UserError, match=r"train\.(idx is damaged: its sequence \d of 5|bin has 24 bytes, not the).*again"
    ):
        check_indexed(whole, "us")


@pytest.mark.parametrize("token", range(sum(SIZES)))
def test_a_token_that_the_dictionary_lacks(token, whole, monkeypatch):
    monkeypatch.setattr(binary, "_BLOCK", 5)
    check_indexed(whole, "us", symbols=6)
    overwrite(whole.with_suffix(".bin"), 2 * token, "<H", 60_000)
    check_indexed(whole, "us")
    with pytest.raises(UserError, match=rf"train\.bin is damaged .*: its token {token} is number 60,000 of 6 symbols"):
        check_indexed(whole, "us", symbols=6)


def test_a_file_of_zeros(whole):
    data = whole.with_suffix(".bin")
    data.write_bytes(bytes(data.stat().st_size))
    with pytest.raises(UserError, match=r"train\.bin is damaged: all its tokens from 0 on are number 0: prepare"):
        check_indexed(whole, "us", symbols=6)


def test_negative_tokens(tmp_path):
    builder = MMapIndexedDatasetBuilder(f"{tmp_path}/train.bin", dtype=np.int32)
    builder.add_item(torch.tensor([5, -1]))
    builder.finalize(f"{tmp_path}/train.idx")
    with pytest.raises(UserError, match="its token 1 is number -1 of 6 symbols"):
        check_indexed(tmp_path / "train", "us", symbols=6)


def test_other_formats_are_told_apart(whole, tmp_path):
    assert is_indexed(whole)
    assert not is_indexed(tmp_path / "none")
    (tmp_path / "old.bin").touch()
    (tmp_path / "old.idx").write_bytes(b"TNTIDX\x00\x00")
    assert not is_indexed(tmp_path / "old")


def test_fairseq_needs_no_more_open_files_than_are_checked(by_fairseq):
    """The fewest with which the check passes are enough to map the data, and one fewer are not."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    holes = [os.open(os.devnull, os.O_RDONLY)]
    while holes[-1] < used:
        holes.append(os.open(os.devnull, os.O_RDONLY))
    used = holes[-1] + 1
    try:
        for limit in range(used, used + 9):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
            try:
                check_open_files(by_fairseq)
                break
            except OSError as error:
                assert str(by_fairseq) in error.filename
        assert len(MMapIndexedDataset(str(by_fairseq))) == 150
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit - 1, before[1]))
        with pytest.raises(OSError, match="Too many open files"):
            check_open_files(by_fairseq)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for number in holes:
            os.close(number)
