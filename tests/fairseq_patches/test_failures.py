import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.trainer import Trainer

from tupe.errors import UserError
from tupe.fairseq_patches.trainer import explain_failure, not_finite_is_explained


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ((), "the loss or a gradient is NaN or infinite"),
        (("--fp16", "--fp16-init-scale", 4, "--min-loss-scale", 1), r"Minimum loss scale reached \(1\.0\)"),
    ],
)
def test_diverging_run_says_where(flags, reason, train, tmp_path):
    """A learning rate of 1e30 breaks the parameters in the first update, and the second is not finite."""
    with pytest.raises(UserError) as caught:
        train(tmp_path, "--lr", 1e30, "--batch-size", 3, *flags)
    crash = re.escape(str(tmp_path / "crash.pt"))
    found = re.match(
        rf"training stopped at update 2, batch ids (\d+), (\d+), (\d+) \(state saved in {crash}\): {reason}",
        str(caught.value),
    )
    assert found
    assert len(set(found.groups())) == 3
    assert (tmp_path / "crash.pt").exists()


def test_many_batch_ids_are_counted():
    trainer = SimpleNamespace(
        get_num_updates=lambda: 6, cfg=SimpleNamespace(checkpoint=SimpleNamespace(save_dir="checkpoints"))
    )
    samples = [{"id": torch.arange(30)}, {}, {"id": torch.arange(30, 40)}]
    said = explain_failure(trainer, samples, FloatingPointError("gradients are Nan/Inf"))
    assert said.startswith("training stopped at update 7, batch ids 0, 1,")
    assert " 31 and 8 more (state saved in checkpoints/crash.pt)" in said


def test_other_errors_stay_what_they_are():
    with pytest.raises(RuntimeError, match="out of luck"), not_finite_is_explained(object.__new__(Trainer), []):
        raise RuntimeError("out of luck")
