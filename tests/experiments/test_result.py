import json

import torch

from tupe.experiments.result import finetuning_result


def line(subset, epoch, update, accuracy):
    record = {"epoch": epoch, f"{subset}_accuracy": str(accuracy), f"{subset}_num_updates": str(update)}
    return f"[2026-01-01 00:00:00,000][{subset}][INFO] - {json.dumps(record)}\n"


def test_metrics_are_of_the_very_validation_that_was_best(tmp_path):
    """An epoch with three validations, the second the best; it was done again when the run was resumed."""
    validations = [(5, 61.0, 60.0), (10, 68.0, 67.0), (10, 70.0, 69.0), (15, 65.0, 75.0)]
    log = "".join(line("valid", 1, u, m) + line("valid1", 1, u, mm) for u, m, mm in validations)
    (tmp_path / "hydra_train.log").write_text(log)
    state = {
        "cfg": {
            "task": {"data": "/data/MNLI"},
            "checkpoint": {"best_checkpoint_metric": "accuracy", "finetune_from_model": "x"},
            "optimization": {"max_epoch": 3, "lr": [1e-5]}, "model": {"_name": "tupe_tiny"}, "common": {"seed": 1},
        },
        "extra_state": {"best": 70.0, "train_iterator": {"epoch": 1, "iterations_in_epoch": 10}},
        "optimizer_history": [{"num_updates": 10}],
    }  # fmt: skip
    torch.save(state, tmp_path / "checkpoint_best.pt")
    result = finetuning_result(tmp_path)
    assert result.score == result.metrics["valid"]["accuracy"] == 70.0
    assert result.metrics["valid1"]["accuracy"] == 69.0
    assert result.epoch == 1
    assert result.model == "tupe_tiny"
    assert finetuning_result(tmp_path, model="electra_tupe_tiny").model == "electra_tupe_tiny"
    assert finetuning_result(tmp_path).model == "electra_tupe_tiny"  # as before
