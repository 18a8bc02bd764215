"""Settings of a fine-tuning."""

import pytest

from tupe.errors import UserError
from tupe.finetuning.settings import read_settings


def test_recipes():
    """A recipe is laid over the task; what is given is laid over both."""
    ours = read_settings("CoLA", ["recipe=electra"])
    assert (ours.lr, ours.epochs, ours.of["lr_scheduler"]["layer_decay"]) == (1e-4, 3, 0.8)
    assert ours.overrides == ["recipe=electra"]
    assert read_settings("CoLA", ["optimization.max_epoch=7", "recipe=electra"]).epochs == 7
    longer = read_settings("STS-B", ["recipe=electra"])
    assert (longer.epochs, longer.overrides) == (10, ["optimization.max_epoch=10", "recipe=electra"])
    assert read_settings("RTE", ["optimization.max_epoch=2", "recipe=electra"]).epochs == 2
    assert read_settings("CoLA", ["recipe=tupe"]).lr == read_settings("CoLA", []).lr
    with pytest.raises(UserError, match="there is no recipe 'bert': the recipes are electra, tupe"):
        read_settings("CoLA", ["recipe=bert"])
