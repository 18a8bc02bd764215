"""Tasks to fine-tune on, and the benchmarks of the papers, which are lists of tasks."""

from pathlib import Path

from tupe.data.glue.tasks import TASKS, prepared_task

GLUE = ("MNLI", "QNLI", "QQP", "SST-2", "CoLA", "MRPC", "RTE", "STS-B", "WNLI")
#: Benchmark -> its tasks, and the learning rates of its paper.
BENCHMARKS = {
    "glue": (GLUE, (2e-5, 3e-5, 4e-5, 5e-5)),  # TUPE, appendix B
    "own": ((), (2e-5, 3e-5, 4e-5, 5e-5)),  # the tasks are those in the data
    "xtreme": (("XNLI", "SQuAD", "TyDiQA"), (1e-5, 2e-5, 3e-5, 4e-5)),  # DIET
}
SEEDS = (1, 2, 3, 4, 5)  # as many as the papers'
#: Task -> sibling folders with test sets per language for the best checkpoint.
TESTS = {"XNLI": ("XNLI",), "SQuAD": ("XQuAD", "MLQA"), "TyDiQA": ("TyDiQA",)}


def settings(task: str, data: Path, overrides: list[str]) -> tuple[str, list[str]]:
    """Return the name of a task's configuration in `configs/finetuning`, and the overrides that select the task.

    The settings of a user's own task follow from its row, which is in the prepared folder `data`.
    """
    if task in ("SQuAD", "TyDiQA"):
        return "qa", [f"qa={task.lower()}"]
    if task in TASKS:
        longer = "recipe=electra" in overrides and task in ("RTE", "STS-B")  # ELECTRA, table 7
        return "glue", [f"glue={task.lower().replace('-', '_')}", *["optimization.max_epoch=10"] * longer]
    row = prepared_task(data)
    number = row.scale is not None
    return "glue", [
        "glue=own",
        f"task.num_classes={len(row.classes) or 1}",
        f"criterion.regression_target={str(number).lower()}",
        f"checkpoint.best_checkpoint_metric={'pearson' if number else 'accuracy'}",
    ]
