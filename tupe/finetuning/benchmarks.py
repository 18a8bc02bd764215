"""What a checkpoint is fine-tuned on: one table of tasks, and the benchmarks that the papers make of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A task to fine-tune on.

    Attributes:
        config: its settings, a file below `configs/finetuning`, over those of the file called as its folder.
        prepared_by: what makes its data.
        data: what is there when it is prepared: training data of fairseq's, below the task's folder.
        tests: folders beside the task's, whose sets by language the best checkpoint is tested on.
    """

    config: str
    prepared_by: str
    data: str
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """Tasks, each fine-tuned with every learning rate and seed.

    Attributes:
        title: what it is called in messages.
        script: that runs it.
        tasks: their names.
        learning_rates: the papers'.
        seeds: as many as the papers'.
    """

    title: str
    script: str
    tasks: tuple[str, ...]
    learning_rates: tuple[float, ...]
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)


_GLUE = ("MNLI", "QNLI", "QQP", "SST-2", "CoLA", "MRPC", "RTE", "STS-B", "WNLI")
_SENTENCES, _QUESTIONS = ("scripts/prepare_glue.sh", "input0/train"), ("tupe prepare-qa", "train/question")
TASKS = {
    **{name: Task(f"glue/{name.lower().replace('-', '_')}", *_SENTENCES) for name in _GLUE},
    "XNLI": Task("glue/xnli", *_SENTENCES, tests=("XNLI",)),
    "SQuAD": Task("qa/squad", *_QUESTIONS, tests=("XQuAD", "MLQA")),
    "TyDiQA": Task("qa/tydiqa", *_QUESTIONS, tests=("TyDiQA",)),
}
BENCHMARKS = {
    "glue": Benchmark("GLUE", "scripts/glue.sh", _GLUE, (2e-5, 3e-5, 4e-5, 5e-5)),  # TUPE, section 4.1
    "xtreme": Benchmark("XTREME", "scripts/xtreme.sh", ("XNLI", "SQuAD", "TyDiQA"), (1e-5, 2e-5, 3e-5, 4e-5)),  # DIET
}
