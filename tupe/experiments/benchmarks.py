"""Tasks to fine-tune on, and the benchmarks of the papers, which are lists of tasks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A task to fine-tune on."""

    config: str  # its settings, a file below `configs/finetuning`, over those of the file called as its folder
    prepared_by: str  # what makes its data
    data: str  # what is there when it is prepared: training data of fairseq's, below the task's folder
    tests: tuple[str, ...] = ()  # folders beside the task's, whose sets by language the best checkpoint is tested on
    overrides: tuple[str, ...] = ()  # `key=value` over its settings


@dataclass(frozen=True)
class Benchmark:
    """Tasks, each fine-tuned with every learning rate and seed."""

    title: str  # what it is called in messages
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
    "own": Benchmark("your own", (), (2e-5, 3e-5, 4e-5, 5e-5)),  # all that `tupe prepare-task` made in the data
    "xtreme": Benchmark("XTREME", ("XNLI", "SQuAD", "TyDiQA"), (1e-5, 2e-5, 3e-5, 4e-5)),  # DIET
}
