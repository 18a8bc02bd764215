"""Train models, fine-tune and compare them."""

from pathlib import Path
from typing import Literal

from typer import Argument, Option

from tupe.cli.launch import Training, for_cpu
from tupe.cli.options import CHECKPOINT, FOLDER, OVERRIDES, Labelled, Values, check_labels, listed, split_label
from tupe.cli.plan import lines
from tupe.data.glue.tasks import own_tasks
from tupe.finetune.benchmarks import BENCHMARKS, SEEDS
from tupe.finetune.published import PUBLISHED
from tupe.finetune.runs import Run
from tupe.finetune.table import as_csv, as_json, markdown, read_sweep
from tupe.util import UserError, atomic

TRAINED_ON = Argument(help="Prepared data; folders as a:b:c.")
CONFIG = Option("base", help="Name in configs/pretraining, such as base; translation/NAME; or a .yaml file.")
MODEL = Option(None, help="Model, which `tupe systems` lists; the configuration's by default.")
BATCH = Option(None, help="Sequences (translation: tokens) per update; the configuration's by default.")
BATCH_PER_GPU = Option(None, help="Sequences (translation: tokens) per GPU and step.")
GPUS = Option(None, help="GPUs of each machine; all by default, 0 for the CPU.")
NODES = Option(None, help="Machines; SLURM's number by default.")


def plan(
    data: str = TRAINED_ON,
    overrides: list[str] = OVERRIDES,
    config: str = CONFIG,
    model: str | None = MODEL,
    batch: int | None = BATCH,
    batch_per_gpu: int | None = BATCH_PER_GPU,
    gpus: int | None = GPUS,
    nodes: int | None = NODES,
    gpu: str | None = Option(None, help="Kind of GPU, to estimate hours: v100, a100, h100, h200 or b200."),
    mfu: float = Option(0.4, help="Fraction of the GPUs' 16-bit peak that is used."),
) -> None:
    """Print the parameters, batch, updates, epochs and hours of a training.

    tupe plan data/wiki --model tupe_a_base --nodes 2 --gpus 8 --gpu h100
    """
    training = Training.of(data, overrides, config, model, batch, batch_per_gpu, gpus, 1, nodes)
    print("\n".join(lines(training, gpu, mfu)))


def pretrain(
    data: str = TRAINED_ON,
    overrides: list[str] = OVERRIDES,
    config: str = CONFIG,
    model: str | None = MODEL,
    init_from: Path | None = Option(None, help="Checkpoint whose model and weights the training starts from."),
    batch: int | None = BATCH,
    batch_per_gpu: int | None = BATCH_PER_GPU,
    gpus: int | None = GPUS,
    processes: int = Option(1, help="Processes on the CPU."),
    nodes: int | None = NODES,
) -> None:
    """Pre-train a model, or train a translator, on any number of GPUs and machines.

    Gradients are accumulated so that the effective batch is that of the configuration. The command prints the plan and
    the `fairseq-hydra-train` command that it runs; the same command resumes from the last checkpoint. On several
    machines without SLURM set NODE_RANK and MASTER_ADDR.

    tupe pretrain data/wiki --model tupe_a_base
    """
    training = Training.of(data, overrides, config, model, batch, batch_per_gpu, gpus, processes, nodes, init_from)
    for line in lines(training):
        print(f"plan: {line}")
    training.run()


def sweep(
    benchmark: Literal["glue", "xtreme", "own"] = Argument(help="Whose tasks; own: those in DATA."),
    checkpoint: Path = CHECKPOINT,
    data: Path = Argument(help="Folder with a prepared folder for each task."),
    out: Path = Argument(help="Folder of the sweep."),
    overrides: list[str] = OVERRIDES,
    tasks: Values = listed(str, "Tasks; all by default."),
    lrs: Values = listed(float, "Learning rates; the papers' by default."),
    seeds: Values = listed(int, "Seeds; 1,2,3,4,5 by default."),
    jobs: int = Option(0, help="Runs at a time; by default one per visible GPU, or one on the CPU."),
) -> None:
    """Fine-tune a checkpoint on a benchmark with several learning rates and seeds, and print the table.

    The same command resumes an interrupted sweep; finished runs are kept.

    tupe sweep glue checkpoints/tupe_a_base/checkpoint_last.pt data/glue runs/glue/tupe_a_base --tasks CoLA,RTE
    """
    from tupe.finetune.sweep import sweep

    usual, rates = BENCHMARKS[benchmark]
    tasks = tasks or usual or own_tasks(data)
    runs = [Run(task, lr, seed) for task in tasks for lr in lrs or rates for seed in seeds or SEEDS]
    for_cpu(jobs or 1)
    failed = sweep(checkpoint, data, out, overrides, runs, jobs)
    print(markdown([read_sweep(out)]))
    if failed:
        raise UserError(f"{len(failed)} of {len(runs)} runs failed. The same command tries them again.")


def table(
    sweeps: list[Labelled] = Argument(parser=split_label, metavar="[LABEL=]SWEEP"),
    published: Literal["base", "large", "electra", "diet", "xtreme", "roberta", "xlmr"] | None = Option(
        None, help="Add published rows."
    ),
    by_language: bool = Option(False, "--by-language", help="Add a column per language."),
    format: Literal["markdown", "csv", "json"] | None = Option(None, help="By default that of --output."),
    output: Path | None = Option(None, help="New file, such as table.csv."),
) -> None:
    """Print the table of sweeps of GLUE or XTREME: the median of the seeds, then the best learning rate.

    tupe table TUPE-A=runs/glue/tupe_a_base runs/glue/bert_a_base --published base
    """
    rows = [read_sweep(path, label, by_language) for label, path in sweeps]
    check_labels([row.name for row in rows])
    kind = format or (output.suffix[1:] if output else "markdown")
    text = {"csv": as_csv, "json": as_json}.get(kind, markdown)([*rows, *PUBLISHED.get(published, [])])
    if output is None:
        print(text)
        return
    with atomic(output) as part:
        part.write_text(f"{text}\n", encoding="utf-8")
    print(f"table: {output}")


def predict(
    checkpoint: Path = CHECKPOINT,
    data: Path = Argument(help="Prepared task, such as data/glue/RTE."),
    out: Path = FOLDER,
    splits: Values = listed(str, "Questions: splits; all test sets by default."),
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

    given = {"splits": splits, "doc_stride": doc_stride, "max_query": max_query, "max_answer": max_answer}
    questions = {name: value for name, value in given.items() if value}
    for path, scores in predict(checkpoint, data, out, **questions).items():
        print("".join(f"{name} {value:.2f}, " for name, value in scores.items()) + f"predictions: {path}")
