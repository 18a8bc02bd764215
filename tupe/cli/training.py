"""Train models, and predict."""

import functools
from pathlib import Path
from typing import Any

from typer import Argument, Option

from tupe.cli.launch import compose
from tupe.cli.options import CHECKPOINT, FOLDER
from tupe.cli.plan import lines


@functools.wraps(compose, assigned=("__annotations__",))
def plan(**options: Any) -> None:
    """Print the parameters, batch, updates, epochs and hours of a training.

    tupe plan data/wiki --model tupe_a_base --nodes 2 --gpus 8 --gpu h100
    """
    print("\n".join(lines(compose(**options))))


@functools.wraps(compose, assigned=("__annotations__",))
def pretrain(**options: Any) -> None:
    """Pre-train a model, or train a translator, on any number of GPUs and machines.

    Gradients are accumulated so that the effective batch is that of the configuration. The command prints the plan and
    the `fairseq-hydra-train` command that it runs; the same command resumes from the last checkpoint. On several
    machines without SLURM set NODE_RANK and MASTER_ADDR.

    tupe pretrain data/wiki --model tupe_a_base
    """
    training = compose(**options)
    for line in lines(training):
        print(f"plan: {line}")
    training.run()


def predict(
    checkpoint: Path = CHECKPOINT,
    data: Path = Argument(help="Prepared task, such as data/glue/RTE."),
    out: Path = FOLDER,
    splits: str = Option("", help="Questions: splits A,B; all test sets by default."),
    doc_stride: int | None = Option(None, help="Questions: tokens from window to window."),
    max_query: int | None = Option(None, help="Questions: tokens of the longest question."),
    max_answer: int | None = Option(None, help="Questions: tokens of the longest answer."),
) -> None:
    """Predict test sets with a fine-tuned checkpoint: GLUE's as its server takes them, answers as SQuAD and XTREME do.

    OUT gets TASK.tsv for texts, and SPLIT.json and SPLIT.nbest.json for questions. The scores are printed where the
    labels or answers are known.

    tupe predict runs/squad/checkpoint_best.pt data/squad predictions --splits test-de,test-zh
    """
    from tupe.finetune.predict import predict

    given = {"doc_stride": doc_stride, "max_query": max_query, "max_answer": max_answer}
    questions = {name: value for name, value in given.items() if value} | (
        {"splits": splits.split(",")} if splits else {}
    )
    for path, scores in predict(checkpoint, data, out, **questions).items():
        print("".join(f"{name} {value:.2f}, " for name, value in scores.items()) + f"predictions: {path}")
