"""Opened checkpoints: what their weights must have."""

import pytest
import torch

from tupe.checkpoints.load import open_checkpoint
from tupe.util import UserError


@pytest.mark.parametrize("change", [lambda head: {}, lambda head: {"weight": head[:1]}])
def test_a_head_that_the_file_lacks_is_no_new_one(change, make_checkpoint, corpus, tmp_path):
    path = tmp_path / "best.pt"
    make_checkpoint(path, spans=True)
    state = torch.load(path, weights_only=True)
    state["model"] |= {f"span_head.{name}": t for name, t in change(state["model"].pop("span_head.weight")).items()}
    torch.save(state, path)
    with pytest.raises(UserError, match=r"span_head\.weight \(2, \d+\) is not in"):
        open_checkpoint(path).model(corpus)
