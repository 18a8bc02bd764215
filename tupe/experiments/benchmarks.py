"""Tasks to fine-tune on, and the benchmarks of the papers, which are lists of tasks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    config: str  # a file of settings below `configs/finetuning`, read after the file with the name of its folder
    prepared_by: str  # the command that makes the data
    data: str  # fairseq's training data, below the task's folder
    tests: tuple[str, ...] = ()  # folders beside the task's, with test sets by language for the best checkpoint
    overrides: tuple[str, ...] = ()  # `key=value` over its settings


@dataclass(frozen=True)
class Benchmark:
    """Tasks, each fine-tuned with every learning rate and seed."""

    title: str  # name in messages
    tasks: tuple[str, ...]
    learning_rates: tuple[float, ...]  # the papers'
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)  # as many as the papers'


_GLUE = ("MNLI", "QNLI", "QQP", "SST-2", "CoLA", "MRPC", "RTE", "STS-B", "WNLI")
_SENTENCES, _QUESTIONS = ("tupe prepare-glue", "input0/train"), ("tupe prepare-qa", "train/question")
TASKS = {
    **{name: Task(f"glue/{name.lower().replace('-', '_')}", *_SENTENCES) for name in _GLUE},
    "XNLI": Task("glue/xnli", *_SENTENCES, tests=("XNLI",)),
    "SQuAD": Task("qa/squad", *_QUESTIONS, tests=("XQuAD", "MLQA")),
    "TyDiQA": Task("qa/tydiqa", *_QUESTIONS, tests=("TyDiQA",)),
}
BENCHMARKS = {
    "glue": Benchmark("GLUE", _GLUE, (2e-5, 3e-5, 4e-5, 5e-5)),  # TUPE, section 4.1
    "own": Benchmark("your own", (), (2e-5, 3e-5, 4e-5, 5e-5)),  # `tupe sweep` finds the tasks in the data
    "xtreme": Benchmark("XTREME", ("XNLI", "SQuAD", "TyDiQA"), (1e-5, 2e-5, 3e-5, 4e-5)),  # DIET
}
