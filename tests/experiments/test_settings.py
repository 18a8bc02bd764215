"""Settings of a fine-tuning."""

import pytest

from tupe.errors import UserError
from tupe.experiments.settings import read_settings


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


def test_fields_of_what_has_a_name_need_no_plus():
    """XTREME's own recipe, in the head of qa.yaml."""
    ours = read_settings("SQuAD", ["lr_scheduler.warmup_ratio=0", "lr_scheduler.warmup_updates=500"])
    assert ours.overrides == ["lr_scheduler.warmup_ratio=0", "+lr_scheduler.warmup_updates=500"]
    assert ours.of["lr_scheduler"] == {"_name": "linear_decay", "warmup_ratio": 0, "warmup_updates": 500}
    assert read_settings("CoLA", ["recipe=electra", "lr_scheduler.layer_decay=1"]).overrides[1:] == [
        "lr_scheduler.layer_decay=1"
    ]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("task=nosuch", "^task is nosuch, but is a group: set its fields, as task.KEY=VALUE"),
        ("common=3", "^common is 3, but is a group: set its fields, as common.KEY=VALUE"),
        ("criterion=masked_lm", "^criterion is masked_lm, but is a group: set its fields, as criterion.KEY=VALUE"),
        ("criterion=x", "^criterion is x, but is a group: set its fields, as criterion.KEY=VALUE"),
        ("dataset.disable_validation=true", "^dataset.disable_validation is true, so that no epoch would be kept"),
        ("checkpoint.no_save=true", "^checkpoint.no_save is true, so that no epoch would be kept as the best"),
        ("dataset.validate_interval=11", "^dataset.validate_interval is 11, but the run has 10 epochs"),
        ("checkpoint.save_interval=11", "^checkpoint.save_interval is 11, but the run has 10 epochs"),
        ("checkpoint.best_checkpoint_metric=loss", "^checkpoint.best_checkpoint_metric is loss, whose greatest value"),
    ],
)
def test_values_of_what_has_a_name(override, said):
    with pytest.raises(UserError, match=said):
        read_settings("CoLA", [override])


@pytest.mark.parametrize(
    "overrides",
    [
        ["checkpoint.best_checkpoint_metric=loss", "checkpoint.maximize_best_checkpoint_metric=false"],
        ["dataset.validate_interval=10", "dataset.disable_validation='false'"],
        ["dataset.validate_interval=99", "dataset.validate_interval_updates=5"],
        ["checkpoint.save_interval=99", "optimization.max_update=20"],
    ],
)
def test_runs_that_keep_their_best_epoch(overrides):
    assert read_settings("CoLA", overrides).overrides == overrides
