import pytest

from tupe.errors import UserError
from tupe.files import check_checksums, check_sizes, checksums, sizes


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
