import pytest

from tupe.errors import UserError
from tupe.fairseq_patches.configuration import refuse_outputs


@pytest.mark.parametrize("place", ["file", "file/in"])
def test_a_folder_for_checkpoints_that_cannot_be(place, train, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=rf"save_dir is {tmp_path / place}, but {tmp_path}/file is no folder: name"):
        train(tmp_path / place)


def test_checkpoints_are_not_put_into_prepared_data(corpus, train, tmp_path):
    (tmp_path / "input0").symlink_to(corpus)
    for folder in (corpus, tmp_path):
        with pytest.raises(UserError, match=rf"checkpoint\.save_dir is {folder}, a folder of prepared data: name"):
            train(folder)
    assert not list(corpus.glob("*.pt"))


@pytest.mark.parametrize(
    ("name", "file", "said"),
    [
        ("log_file", "model.pt", "neither text nor picture"),
        ("log_file", "data/dict.txt", "a file of prepared data"),
        ("log_file", "data/notes.txt", "a file of prepared data"),
        ("log_file", "none/log.txt", "which cannot be written: name a file in a folder that is there"),
        ("log_file", "data", "which cannot be written"),
        ("tensorboard_logdir", "data", "a folder of prepared data"),
        ("tensorboard_logdir", "model.pt", r"model\.pt is no folder"),
    ],
)
def test_outputs_that_would_spoil(name, file, said, tmp_path):
    (tmp_path / "data").mkdir()
    for text in ("dict.txt", "notes.txt", "train.idx"):
        (tmp_path / "data" / text).write_text("a 1")
    (tmp_path / "model.pt").write_bytes(b"PK\0\xff")
    cfg = {"common": {name: str(tmp_path / file)}, "task": {"data": str(tmp_path / "data")}}
    with pytest.raises(UserError, match=said):
        refuse_outputs(cfg)


def test_outputs_of_an_earlier_run(tmp_path):
    """Beside a checkpoint fairseq's hub interface reads a dictionary: that alone is no prepared data. Nor is a folder
    that holds the data's.
    """
    (tmp_path / "dict.txt").write_text("a 1")
    (tmp_path / "log").mkdir()
    (tmp_path / "log/train.log").write_text("epoch 1")
    common = {"log_file": str(tmp_path / "log/train.log"), "tensorboard_logdir": str(tmp_path)}
    refuse_outputs({"checkpoint": {"save_dir": str(tmp_path)}, "common": common})
    (tmp_path / "dict.txt").unlink()
    (tmp_path / "log/train.idx").touch()
    refuse_outputs({"checkpoint": {"save_dir": str(tmp_path)}})
