import pytest
from omegaconf import OmegaConf

from tupe.errors import UserError
from tupe.fairseq_mends.ranges import refuse_out_of_range


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--lr", -1], r"optimization.lr is -1.0: give a number, 0 or more"),
        (["--batch-size", -3], r"dataset.batch_size is -3: give a number above 0"),
        (["--update-freq", 0], r"optimization.update_freq is 0: give a number above 0"),
        (["--mask-prob", 1], r"task.mask_prob is 1.0: give a share above 0 and below 1"),
        (["--lr", "1e999"], r"optimization.lr is inf: give a number, 0 or more"),
        (["--dropout", -0.5], r"model.dropout is -0.5: give a share, from 0 to 1"),
        (["--leave-unmasked-prob", 0.7, "--random-token-prob", 0.7], r"add up to 1.4: give at most 1"),
    ],
)
def test_training_refuses(flags, said, train, tmp_path):
    with pytest.raises(UserError, match=said):
        train(tmp_path, *flags)
    assert not list(tmp_path.glob("*.pt"))


def test_what_is_there_may_be_at_its_end_or_not_set():
    refuse_out_of_range(
        OmegaConf.create(
            {
                "model": {"dropout": 0.0, "attention_dropout": 1},
                "dataset": {"batch_size": None, "max_tokens": -1, "batch_size_valid": 1},
                "optimization": {"lr": [0.0, 1e-3], "update_freq": [1]},
            }
        )
    )


@pytest.mark.parametrize("place", ["file", "file/in"])
def test_a_folder_for_checkpoints_that_cannot_be(place, train, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=rf"{place} cannot be a folder of checkpoints \(.*\): set --save-dir"):
        train(tmp_path / place)
