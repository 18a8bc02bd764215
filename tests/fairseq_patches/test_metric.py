import pytest
import torch

from tupe.errors import UserError
from tupe.safe_load import safe_load


@pytest.mark.parametrize(("metric", "near"), [("nosuch", ""), ("losss", r" \(did you mean loss\?\)")])
def test_a_metric_that_nothing_logs(metric, near, train, tmp_path):
    with pytest.raises(UserError, match=rf"best_checkpoint_metric is {metric}{near}, but validation logs .*\bppl\b"):
        train(tmp_path, "--best-checkpoint-metric", metric)
    assert not list(tmp_path.glob("*.pt"))


def test_a_metric_other_than_the_loss_leaves_the_run_as_it_is(train, tmp_path):
    for metric in ("loss", "ppl"):
        train(tmp_path / metric, "--best-checkpoint-metric", metric, "--no-save-optimizer-state")
    first, second = (safe_load(tmp_path / metric / "checkpoint_last.pt")["model"] for metric in ("loss", "ppl"))
    assert all(torch.equal(first[name], second[name]) for name in first)
