"""Settings of a fine-tuning."""

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


def test_fields_of_what_has_a_name_need_no_plus():
    """XTREME's own recipe, in the head of qa.yaml."""
    ours = read_settings("SQuAD", ["lr_scheduler.warmup_ratio=0", "lr_scheduler.warmup_updates=500"])
    assert ours.overrides == ["lr_scheduler.warmup_ratio=0", "+lr_scheduler.warmup_updates=500"]
    assert ours.of["lr_scheduler"] == {"_name": "linear_decay", "warmup_ratio": 0, "warmup_updates": 500}
    assert read_settings("CoLA", ["recipe=electra", "lr_scheduler.layer_decay=1"]).overrides[1:] == [
        "lr_scheduler.layer_decay=1"
    ]
