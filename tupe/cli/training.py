"""Train models, and predict."""

from pathlib import Path

from typer import Argument, Option

from tupe.cli.launch import Training
from tupe.cli.options import CHECKPOINT, FOLDER, OVERRIDES
from tupe.cli.plan import lines

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
