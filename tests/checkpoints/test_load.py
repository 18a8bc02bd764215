"""Opened checkpoints: what their weights must have."""

import pytest
import torch

from tupe.checkpoints.load import open_checkpoint
from tupe.util import UserError


def changed(path, change):
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


@pytest.mark.parametrize("change", [lambda head: {}, lambda head: {"weight": head[:1]}])
def test_a_head_that_the_file_lacks_is_no_new_one(change, make_checkpoint, corpus, tmp_path):
    make_checkpoint(tmp_path / "best.pt", spans=True)

    def without(state):
        state["model"] |= {f"span_head.{name}": t for name, t in change(state["model"].pop("span_head.weight")).items()}

    changed(tmp_path / "best.pt", without)
    with pytest.raises(UserError, match=r"span_head\.weight \(2, \d+\) is not in"):
        open_checkpoint(tmp_path / "best.pt").model(corpus)
