"""The commands of `tupe`: functions whose arguments are the command's, and whose docstrings are its help.

Inputs come first and the output comes last, as in `cp`; options stand anywhere. `A,B` is a list of values. Each
function imports what it needs when it runs, because PyTorch and fairseq take seconds.
"""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer
from typer import Argument, Option

from tupe.util import UserError, atomic, available_cores, check_new, write_json

_SETTINGS = {"rich_markup_mode": None, "no_args_is_help": True, "pretty_exceptions_enable": False}
_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(help="Pre-train, compare and export encoders with TUPE's, DIET's and other position encodings.",
                  context_settings=_HELP, **_SETTINGS)  # fmt: skip
convert = typer.Typer(help="Write a checkpoint in another form.", context_settings=_HELP, **_SETTINGS)


class Labelled(NamedTuple):
    label: str  # empty if none was given
    path: Path


def split_label(argument: str) -> Labelled:
    """Split `[LABEL=]PATH`. A path that exists may have a `=` of its own."""
    plain = "=" not in argument or Path(argument).exists()
    label, _, path = ("", "", argument) if plain else argument.partition("=")
    return Labelled(label, Path(path))


class Values(list):
    """The values of `A,B`."""


def listed(kind: Callable[[str], Any], help: str) -> Any:
    """Make an option whose value is `A,B`."""
    return Option("", parser=lambda text: Values(map(kind, filter(None, text.split(",")))), metavar="A,B", help=help)


DATA = Option(None, help="Prepared corpus, for its vocabulary and its held-out text.")
TEXT = Option(None, help="Text file that replaces the held-out text.")
SEQUENCES = Option(8, help="Sequences of the text, at most.")
WORKERS = Option(None, help="Processes; all cores by default.")
RULES = Option("squad", help="Rules by which answers are scored.")
OVERRIDES = Argument([], metavar="key=value", help="Changes of the configuration.")
CHECKPOINT = Argument(help="Checkpoint of this plugin.")
CHECKPOINTS = Argument(parser=split_label, metavar="[LABEL=]CHECKPOINT")
CORPUS = Argument(help="Prepared corpus, or an imported model.")
CONFIG = Option("base", help="Name in configs/pretraining, such as base; translation/NAME; or a .yaml file.")
MODEL = Option(None, help="Model, which `tupe systems` lists; the configuration's by default.")
BATCH = Option(None, help="Sequences (translation: tokens) per update; the configuration's by default.")
BATCH_PER_GPU = Option(None, help="Sequences (translation: tokens) per GPU and step.")
GPUS = Option(None, help="GPUs of each machine; all by default, 0 for the CPU.")
PROCESSES = Option(1, help="Processes on the CPU.")
NODES = Option(None, help="Machines; SLURM's number by default.")
NEW_FILE = Argument(help="New file.")
FOLDER = Argument(help="Folder to write.")
TRAINED_ON = Argument(help="Prepared data; folders as a:b:c.")
Figure = Literal["position", "reset", "similarity", "segments", "correlations", "ranks", "training"]


def counted(counts: dict[str, int]) -> str:
    """Write counts as "2 pairs, 1 dropped"."""
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())


@app.command()
def prepare_corpus(
    inputs: list[Path] = Argument([], help="Text files or folders; de=INPUT in a corpus of many."),
    out: Path = Argument(help="Folder of the corpus."),
    books: list[Path] = Option([], help="Folder whose files are one document each."),
    languages: list[Path] = Option([], help="Folder whose entries are named by language."),
    profile: Literal["paper", "sentencepiece"] | None = Option(None, help="Which stages run."),
    also: Values = listed(str, "Stages that the profile does not have."),
    without: Values = listed(str, "Stages of the profile that are left out."),
    language: str | None = Option(None, help="Language of the rules for sentences and tokens."),
    vocab_size: int = Option(32_768, help="Symbols of the dictionary."),
    model_type: Literal["bpe", "unigram"] | None = Option(None, help="Kind of SentencePiece model."),
    vocab_alpha: float = Option(0.5, help="The vocabulary samples each language by its size to this power."),
    vocabulary: Path | None = Option(None, help="Corpus or imported model whose vocabulary is taken."),
    valid_documents: float = Option(0.01, help="Held-out documents: a number, or a fraction below 1."),
    max_tokens: int = Option(126, help="Longer lines are cut."),
    shards: int | None = Option(None, help="Folders of training data; one per gigabyte of text by default."),
    workers: int | None = WORKERS,
) -> None:
    """Prepare a corpus: cleaned text, a SentencePiece vocabulary, fairseq's binary data and a manifest.

    Inputs in several languages are written as LANGUAGE=INPUT. Each language gets a folder; all share one vocabulary.

    tupe prepare-corpus extracted/ data/wiki --profile paper
    """
    from dataclasses import replace

    from tupe.data.corpus import prepare, report
    from tupe.data.documents import find
    from tupe.data.manifest import IMPORTED, Manifest, Settings
    from tupe.data.text import LANGUAGES, PROFILES, STAGES

    found = find(inputs, books, languages)
    many = bool(found[0].language)
    shared = Manifest.load(vocabulary) if vocabulary else None
    name = profile or ("sentencepiece" if many else "paper")
    stages, usual = PROFILES[name], LANGUAGES[name]
    if shared and shared.imported and not profile:  # as the model read its text
        name, stages, usual = IMPORTED, shared.settings.stages, shared.settings.language
    for stage in {*also, *without} - {*STAGES}:
        raise UserError(f"'{stage}' is not a stage. Choose from {', '.join(STAGES)}.")
    chosen = {*stages, *also} - {*without}
    settings = Settings(
        profile=name,
        stages=tuple(stage for stage in STAGES if stage in chosen),
        language=language or usual,
        vocab_size=vocab_size,
        model_type=model_type or ("unigram" if many else "bpe"),
        valid_documents=valid_documents if valid_documents < 1 else int(valid_documents),
        shards=shards,
        max_tokens=max_tokens,
        vocab_alpha=vocab_alpha,
    )
    if shared:
        taken = {name: getattr(shared.settings, name) for name in ("vocab_size", "model_type", "vocab_alpha")}
        settings = replace(settings, **taken, vocabulary=shared.checksums[shared.model.name])
    print("\n".join(report(prepare(out, found, settings, workers or available_cores(), shared))))


@app.command()
def prepare_glue(
    glue: Path = Argument(help="GLUE's download: CoLA/train.tsv and so on; or files of your own."),
    corpus: Path = CORPUS,
    names: list[str] = Argument([], metavar="TASK", help="Tasks; all in GLUE by default."),
    out: Path = Argument(help="Folder that gets a folder per task."),
    tasks: Path | None = Option(None, help="YAML file of tasks of your own, whose files are in GLUE."),
    workers: int | None = WORKERS,
) -> None:
    """Prepare tasks of GLUE, or of your own, with the text processing and vocabulary of a corpus.

    tupe prepare-glue glue_data data/wiki CoLA STS-B data/glue
    """
    from tupe.data.glue.prepare import prepare, present
    from tupe.data.glue.tasks import TASKS, read_tasks
    from tupe.data.manifest import Manifest
    from tupe.data.parallel import pool

    known = read_tasks(tasks, glue) if tasks else TASKS
    chosen = [known[name] for name in names] or [task for task in known.values() if present(task, glue)]
    if not names and len(chosen) < len(known):
        print(f"not in {glue}: {', '.join(name for name, task in known.items() if task not in chosen)}")
    with pool(workers or available_cores()) as map_:
        for line in prepare(chosen, glue, Manifest.load(corpus), out, map_):
            print(line, flush=True)
    print(f"data: {out}")


@app.command()
def prepare_qa(
    files: list[Labelled] = Argument(parser=split_label, metavar="SPLIT=FILE", help="JSON of SQuAD's form."),
    corpus: Path = CORPUS,
    out: Path = FOLDER,
    rules: Literal["squad", "mlqa"] = RULES,
    language: str = Option("en", help="Language of the text."),
    workers: int | None = WORKERS,
) -> None:
    """Prepare extractive question answering (SQuAD v1.1, MLQA, XQuAD, TyDiQA-GoldP) with the vocabulary of a corpus.

    The splits are train, valid, valid1, ..., test, and test-de, test-fr, ... of a language. Files may be compressed
    (.xz, .gz, .bz2).

    \b
    tupe prepare-qa train=train-v1.1.json valid=dev-v1.1.json test-de=xquad.de.json data/wiki data/squad
    """
    from tupe.data.manifest import Manifest
    from tupe.data.parallel import pool
    from tupe.data.questions import prepare

    with pool(workers or available_cores()) as map_:
        reports = prepare(dict(files), Manifest.load(corpus), out, rules, language, map_)
    for split, report in reports.items():
        print(f"{split:<8} {report['kept']:,} kept: {counted(report['counts'])}")
    print(f"data: {out}")


@app.command()
def prepare_translation(
    source: str = Argument(help="Language that is translated, as its files end: en."),
    target: str = Argument(help="Language of the translations: de."),
    out: Path = FOLDER,
    train: str = Option(help="Training data without the ending: data/train."),
    valid: str = Option(help="Validation data."),
    test: list[str] = Option([], help="Test data; the second becomes test1."),
    vocab_size: int = Option(32_000, help="Symbols of both languages."),
    model_type: Literal["bpe", "unigram"] = Option("bpe", help="Kind of SentencePiece model."),
    lower_case: bool = Option(False, "--lower-case", help="Fold case in the SentencePiece model."),
    max_tokens: int = Option(250, help="Tokens of the longest training side."),
    max_ratio: float = Option(1.5, help="Highest ratio of the lengths of a training pair."),
    workers: int | None = WORKERS,
) -> None:
    """Prepare parallel text: one joint SentencePiece model, fairseq's binary data and a manifest.

    Training pairs are cleaned by length and ratio; validation and test data stay as they are. Files may be compressed
    (.xz, .gz, .bz2).

    \b
    tupe prepare-translation en de OUT --train data/train --valid data/val --test data/test_2016
    """
    from tupe.data.parallel import pool
    from tupe.data.translation import Settings, prepare

    languages = (source, target)
    settings = Settings(languages, vocab_size, model_type, lower_case, max_tokens, max_ratio)
    prefixes = {"train": [train], "valid": [valid], "test": test}
    with pool(workers or available_cores()) as map_:
        content = prepare(out, prefixes, settings, map_)
    for name, counts in content["splits"].items():
        print(f"{name:<6} {counted(counts)}")
    print(f"data: {out}")


@app.command()
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
    from tupe.cli.launch import Training
    from tupe.cli.plan import lines

    training = Training.of(data, overrides, config, model, batch, batch_per_gpu, gpus, 1, nodes)
    print("\n".join(lines(training, gpu, mfu)))


@app.command()
def pretrain(
    data: str = TRAINED_ON,
    overrides: list[str] = OVERRIDES,
    config: str = CONFIG,
    model: str | None = MODEL,
    init_from: Path | None = Option(None, help="Checkpoint whose model and weights the training starts from."),
    batch: int | None = BATCH,
    batch_per_gpu: int | None = BATCH_PER_GPU,
    gpus: int | None = GPUS,
    processes: int = PROCESSES,
    nodes: int | None = NODES,
) -> None:
    """Pre-train a model, or train a translator, on any number of GPUs and machines.

    Gradients are accumulated so that the effective batch is that of the configuration. The command prints the plan and
    the `fairseq-hydra-train` command that it runs; the same command resumes from the last checkpoint. On several
    machines without SLURM set NODE_RANK and MASTER_ADDR.

    tupe pretrain data/wiki --model tupe_a_base
    """
    from tupe.cli.launch import Training
    from tupe.cli.plan import lines

    training = Training.of(data, overrides, config, model, batch, batch_per_gpu, gpus, processes, nodes, init_from)
    for line in lines(training):
        print(f"plan: {line}")
    training.run()


@app.command()
def finetune(
    task: str = Argument(help="Task of GLUE, XNLI, SQuAD, TyDiQA, or one of your own."),
    checkpoint: Path = CHECKPOINT,
    data: Path = Argument(help="Prepared task, or the folder of all."),
    overrides: list[str] = OVERRIDES,
) -> None:
    """Fine-tune a checkpoint on one task with the papers' settings.

    The command prints the `fairseq-hydra-train` command that it runs; the same command resumes an interrupted run.

    \b
    tupe finetune CoLA checkpoints/tupe_a_base/checkpoint_last.pt data/glue optimization.lr=[2e-5]
    """
    from tupe.finetune.finetune import finetune
    from tupe.finetune.runs import result

    folder = finetune(task, checkpoint, data, overrides)
    print(f"{task}: {result(folder)}, in {folder}")


@app.command()
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

    \b
    tupe sweep glue checkpoints/tupe_a_base/checkpoint_last.pt data/glue runs/glue/tupe_a_base --tasks CoLA,RTE
    """
    from tupe.cli.launch import for_cpu
    from tupe.data.glue.tasks import own_tasks
    from tupe.finetune.benchmarks import BENCHMARKS, SEEDS
    from tupe.finetune.runs import Run
    from tupe.finetune.sweep import sweep
    from tupe.finetune.table import markdown, read_sweep

    usual, rates = BENCHMARKS[benchmark]
    tasks = tasks or usual or own_tasks(data)
    runs = [Run(task, lr, seed) for task in tasks for lr in lrs or rates for seed in seeds or SEEDS]
    for_cpu(jobs or 1)
    failed = sweep(checkpoint, data, out, overrides, runs, jobs)
    print(markdown([read_sweep(out)]))
    if failed:
        raise UserError(f"{len(failed)} of {len(runs)} runs failed. The same command tries them again.")


@app.command()
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

    \b
    tupe table TUPE-A=runs/glue/tupe_a_base runs/glue/bert_a_base --published base
    """
    from tupe.finetune.published import PUBLISHED
    from tupe.finetune.table import as_csv, as_json, markdown, read_sweep

    rows = [read_sweep(path, label, by_language) for label, path in sweeps]
    _check_labels([row.name for row in rows])
    kind = format or (output.suffix[1:] if output else "markdown")
    text = {"csv": as_csv, "json": as_json}.get(kind, markdown)([*rows, *PUBLISHED.get(published, [])])
    if output is None:
        print(text)
        return
    with atomic(output) as part:
        part.write_text(f"{text}\n", encoding="utf-8")
    print(f"table: {output}")


@app.command()
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

    \b
    tupe predict runs/squad/checkpoint_best.pt data/squad predictions --splits test-de,test-zh
    """
    from tupe.finetune.predict import predict

    given = {"splits": splits, "doc_stride": doc_stride, "max_query": max_query, "max_answer": max_answer}
    questions = {name: value for name, value in given.items() if value}
    for path, scores in predict(checkpoint, data, out, **questions).items():
        print("".join(f"{name} {value:.2f}, " for name, value in scores.items()) + f"predictions: {path}")


@app.command()
def qa_score(
    reference: Path = Argument(help="Questions with their answers, JSON of SQuAD's form."),
    predictions: Path = Argument(help="JSON with a text for each id."),
    rules: Literal["squad", "mlqa"] = RULES,
    language: str = Option("en", help="Language of the text."),
) -> None:
    """Score answers by the official rules of SQuAD or MLQA: exact match and F1 in percent, as JSON.

    XQuAD and TyDiQA-GoldP are scored by SQuAD's rules. Files may be compressed (.xz, .gz, .bz2).
    """
    import json

    from tupe.data.questions import score_files
    from tupe.data.scores import tokens

    result, said = score_files(reference, predictions, tokens(rules, language))
    if said:
        print(f"warning: {said}", file=sys.stderr)
    print(json.dumps(result))


@app.command()
def systems(
    kind: Literal["encoder", "electra", "translation"] = Option("encoder", help="Kind of models."),
    flags: bool = Option(False, "--flags", help="Explain the flags that make a system instead."),
    parameters: bool = Option(False, "--parameters", help="Count the parameters too."),
    vocab_size: int = Option(32_768, help="Symbols, for the count."),
    max_positions: int = Option(512, help="Positions, for the count."),
) -> None:
    """Print the named systems with their fields.

    The models are SYSTEM_SIZE, electra_SYSTEM_SIZE with a generator, and seq2seq_SYSTEM_SIZE for translation.

    tupe systems --parameters --vocab-size 50000
    """
    from tupe.cli import listing

    if flags:
        listing.print_flags()
        return
    listing.print_systems(kind)
    if parameters:
        listing.print_parameters(kind, vocab_size, max_positions)


@app.command()
def describe(
    model: str = Argument(metavar="CHECKPOINT|MODEL", help="A checkpoint, or a name such as tupe_a_base."),
    fields: list[str] = Argument([], metavar="FIELD=VALUE", help="Changes of a named model."),
    vocab_size: int = Option(32_768, help="Symbols of a named model."),
    max_positions: int = Option(512, help="Positions of a named model."),
) -> None:
    """Print a model's equation, parameters, cost and the fields of its position encoding.

    tupe describe checkpoints/tupe_a_base/checkpoint_last.pt
    """
    from tupe.analysis.checkpoint import open_encoder
    from tupe.models.describe import describe, with_fields

    if Path(model).exists():
        if fields:
            raise UserError(f"{model} has its own fields. {' '.join(fields)} is only for a model's name.")
        encoder = open_encoder(model)
        args, vocab_size = encoder.args, encoder.sentence_encoder.embed_tokens.num_embeddings
    else:
        args = with_fields(model, fields)
        args.max_positions = args.max_positions or max_positions
    print("\n".join(describe(args, vocab_size)))


@app.command()
def plot(
    figure: Figure = Argument(help="One of those below."),
    paths: list[Labelled] = Argument(parser=split_label, metavar="[LABEL=]PATH", help="Checkpoints or runs."),
    out: Path = Argument(help="New file of the picture: .png, .pdf, .svg, ..."),
    data: Path | None = DATA,
    text: Path | None = TEXT,
    sequences: int = SEQUENCES,
    length: int | None = Option(None, help="Positions; all by default, 128 of a text."),
    head: int | None = Option(None, help="reset: head, from 1; all by default."),
    against: str | None = Option(None, help="training: run whose final loss the others reach earlier."),
) -> None:
    """Draw one of the papers' figures of a checkpoint, or the curves of runs.

    \b
    position      position correlation of every head of a checkpoint
    reset         every head of a checkpoint, or --head, before and after the reset of [CLS]
    similarity    cosine similarity of the position vectors of a checkpoint
    segments      what every head of a checkpoint adds between segments
    correlations  content and positions in the first layer of a checkpoint, on --data
    ranks         rank of the logits in each layer of checkpoints, on --data
    training      loss and learning rate of runs

    tupe plot position checkpoints/tupe_a_base/checkpoint_last.pt position.png
    """
    from tupe.analysis.curves import plot_training
    from tupe.analysis.figure import heat_maps, save_figure
    from tupe.analysis.logits import logit_ranks, plot_ranks
    from tupe.analysis.page import FIGURES
    from tupe.analysis.text import read_tokens

    check_new(out)
    if figure == "training":
        drawn = plot_training(_read_runs(paths), "Training", against)
    else:
        encoders, texts = _open_encoders(paths), [None]
        if figure in ("correlations", "ranks"):
            texts = [read_tokens(encoder, data, length or 128, sequences, text) for encoder in encoders]
        if figure == "ranks":
            ranks = {encoder.shown_as: logit_ranks(encoder, tokens) for encoder, tokens in zip(encoders, texts)}
            drawn = plot_ranks(ranks, texts[0].shape[1])
        else:
            [encoder] = encoders
            if not FIGURES[figure].has(encoder.args):
                raise UserError(f"{encoder.shown_as} has no such figure. docs/figures.md lists the systems that have.")
            maps = FIGURES[figure].draw(encoder, length if texts[0] is None else texts[0])
            if head:
                pair = slice(2 * head - 2, 2 * head)
                maps = maps._replace(values=maps.values[pair], names=maps.names[pair])
            drawn = heat_maps(maps)
    save_figure(drawn, out)
    print(f"{figure}: {out}")


@app.command()
def report(
    checkpoints: list[Labelled] = CHECKPOINTS,
    out: Path = Argument(help="New page, .html."),
    runs: list[Labelled] = Option([], parser=split_label, help="[LABEL=]RUN, for the curves."),
    against: str | None = Option(None, help="Run whose final loss the others reach earlier."),
    glue: list[Labelled] = Option([], parser=split_label, help="[LABEL=]SWEEP, for the table."),
    data: Path | None = DATA,
    text: Path | None = TEXT,
    sequences: int = SEQUENCES,
    length: int = Option(128, help="Positions, and tokens of a sequence."),
) -> None:
    """Put models on one HTML page: equations, numbers and figures. It has no script and loads nothing.

    \b
    tupe report TUPE-A=a/checkpoint_last.pt BERT-A=b/checkpoint_last.pt report.html --data data/wiki \\
        --runs TUPE-A=a --runs BERT-A=b --against BERT-A --glue TUPE-A=runs/glue/a
    """
    from tupe.analysis.page import write_page
    from tupe.analysis.text import read_tokens
    from tupe.finetune.table import as_text, read_sweep

    check_new(out)
    encoders, texts, tables = _open_encoders(checkpoints), [], {}
    if rows := [read_sweep(path, label) for label, path in glue]:
        how = "For each learning rate the median of the seeds, then the best rate; ± is the deviation over the seeds."
        tables["Fine-tuning"] = how, as_text(rows)
    if data:
        lengths = [min(length, encoder.args.max_positions) for encoder in encoders]
        texts = [read_tokens(encoder, data, n, sequences, text) for encoder, n in zip(encoders, lengths)]
    logs = _read_runs(runs)
    write_page(out, encoders, length=length, texts=texts, logs=logs, against=against, tables=tables)
    print(f"report: {out}")


@app.command()
def loss_by_length(
    checkpoints: list[Labelled] = CHECKPOINTS,
    data: Path = Option(help="Prepared corpus, whose held-out text is read."),
    lengths: Values = listed(int, "Lengths of windows."),
    masks: int = Option(4, help="Drawings of the masks."),
    tokens: int = Option(100_000, help="Tokens of the held-out text, at most."),
    window: bool = Option(False, "--window", help="Also attend within half the length of training."),
    seed: int = Option(1, help="Seed of the masks."),
    json: Path | None = Option(None, help="New file of all numbers."),
    figure: Path | None = Option(None, help="New file of the picture."),
) -> None:
    """Print the loss of the same masked tokens in windows of several lengths, also longer than in training.

    A row is a model and a length: bits per masked token, and the difference from windows as long as the sequences of
    its training, with its 95% interval. The lengths are 1, 2, 4 and 8 times the shortest length of training by default.

    \b
    tupe loss-by-length TUPE-R=tupe.pt T5=t5.pt --data data/wiki --lengths 128,256,512 --figure length.png
    """
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.figure import save_figure
    from tupe.analysis.length import loss_by_length, plot_loss_by_length

    for out in filter(None, (json, figure)):
        check_new(out)
    paths = _named(checkpoints)
    trained = {name: open_encoder(path).trained_length for name, path in paths.items()}
    lengths = sorted({*(lengths or [times * min(trained.values()) for times in (1, 2, 4, 8)])})
    settings = {"tokens": tokens, "masks": masks, "seed": seed}
    print(f"{'':<32}{'length':>8}{'bits':>8}{'difference':>12}{'95% interval':>20}")
    models, lines = {}, {}
    for name, path in paths.items():
        longest = max(*lengths, *trained.values())
        found = loss_by_length(path, data, lengths, window=window, longest=longest, **settings)
        for extension, losses in found.items():
            label = name if extension == "none" else f"{name}, {extension}"
            lines[label] = losses
            for length, loss in losses.items():
                interval = f"{loss.difference - loss.half_interval:+.3f} to {loss.difference + loss.half_interval:+.3f}"
                print(f"{label:<32}{length:>8}{loss.bits:>8.3f}{loss.difference:>+12.3f}{interval:>20}")
            if missing := [str(length) for length in lengths if length not in losses]:
                print(f"{label:<32}{', '.join(missing)}: it has {trained[name]} positions; slide such windows")
        extensions = {one: {n: loss._asdict() for n, loss in losses.items()} for one, losses in found.items()}
        models[name] = {"checkpoint": str(path), "trained_length": trained[name], "extensions": extensions}
    if json:
        write_json(json, {"data": str(data), **settings, "models": models})
        print(f"numbers: {json}")
    if figure:
        save_figure(plot_loss_by_length(lines), figure)
        print(f"loss by length: {figure}")


@app.command("import")
def import_(
    folder: Path = Argument(help="Released by fairseq, or written by save_pretrained or `tupe export`."),
    out: Path = Argument(help="New folder; for an export of ours a new file."),
    head: str | None = Option(None, help="Keep the classification head; of fairseq's model the one so named."),
    labels: Values = listed(str, "Names of the head's classes, in its order."),
    pooler: bool = Option(False, "--pooler", help="Keep BERT's pooler, to start the head of a task with."),
    no_tokenizer: bool = Option(False, "--no-tokenizer", help="Write no tokenizer."),
    bpe: Path | None = Option(None, help="Folder of encoder.json and vocab.bpe of a fairseq model."),
    language: str = Option("xx", help="Language of the text, for the manifest; xx: any."),
) -> None:
    """Import a model that was pre-trained by fairseq or Transformers, or that `tupe export` wrote.

    RoBERTa, XLM-R and CamemBERT of fairseq; of Transformers also BERT, DistilBERT, MPNet, ELECTRA, data2vec and
    DeBERTa's second and third version. OUT is then a folder with checkpoint, dictionary, tokenizer and manifest, which
    other commands take as a corpus; the original is run too, and the difference of the outputs is printed. Of our own
    exports OUT is a checkpoint.

    tupe import roberta.base/ models/roberta_base --bpe gpt2_bpe/
    """
    from tupe.checkpoints.foreign.importing import import_model, is_ours
    from tupe.hf.load import import_transformers

    if is_ours(folder):
        check_new(out)
        if import_transformers(folder, out):
            print("note: the folder has no language-model head, so the checkpoint's is untrained")
        print(f"wrote {out}; train on from it with --restore-file, or load it by TupeModel.from_pretrained")
        return
    lines = import_model(
        folder, out, head_name=head, labels=labels, pooler=pooler, with_tokenizer=not no_tokenizer, bpe=bpe,
        language=language,
    )  # fmt: skip
    print("\n".join(lines))
    print(f"wrote {out}: checkpoint.pt, and what prepare-glue and prepare-qa take as CORPUS")


@app.command()
def warm_start(
    checkpoint: Path = Argument(help="Masked language model, trained here or imported."),
    system: str = Argument(help="New system, which `tupe systems` lists; the size stays."),
    fields: list[str] = Argument([], metavar="FIELD=VALUE", help="Changes of the system."),
    out: Path = NEW_FILE,
    data: Path | None = Option(None, help="Corpus in the model's vocabulary; also to measure the losses."),
    positions: Literal["calibrate", "weights", "new"] = Option(
        "calibrate", help="Fit to text, guess from the weights, or draw."
    ),
    sequences: int = Option(384, help="Sequences to calibrate on, and to measure the losses on."),
    seed: int = Option(1, help="Seed of the masks and of new parameters."),
) -> None:
    """Convert a trained model to another position encoding; its content and layers are copied.

    The outputs stay the same if the system only adds a relative term, segments or DIET's factors, scales the content
    otherwise, or no longer shares terms among layers. For any other system, the positions of a BERT-A are taken out of
    the input, and the new terms are fitted on the text of --data.

    tupe warm-start models/roberta_base/checkpoint.pt bert_r bert_r.pt
    """
    import time

    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.text import read_stream
    from tupe.analysis.warm_start import losses, masked_training_text
    from tupe.checkpoints.load import model_config, open_checkpoint, write_weights
    from tupe.checkpoints.warm_start.start import checkpoint_weights, difference, warm_start
    from tupe.checkpoints.warm_start.target import target_fields, why_not_exact
    from tupe.models.describe import full_name

    check_new(out)
    opened = open_checkpoint(checkpoint)
    old = open_encoder(opened)
    target = target_fields(old, system, fields)
    sample, begin = None, time.process_time()
    if data is not None and why_not_exact(old.args, target) is None:
        read_stream(old, data, split="train", most=1)  # nothing is fitted to it, but it must be the model's
    elif data is not None:
        sample = masked_training_text(old, data, sequences, seed)
    started = warm_start(old, target, sample, positions, seed)
    seconds = time.process_time() - begin
    new = started.encoder
    weights, left = checkpoint_weights(new, opened.weights)

    print(f"{old.shown_as} to {full_name(new.args)}")
    if started.exact:
        apart, largest = difference(old, new)
        print(f"exact: the logits of both differ by at most {apart:.1e}, the largest being {largest:.2f}")
    elif positions == "new":
        print("the content and layers of the old model; its positions are lost, and the new ones are drawn")
    else:
        how = f"calibrated on {len(sample)} sequences" if positions == "calibrate" else "guessed from the weights"
        print(f"not exact: the positions are taken out of the input and {how}")
        shares = ", ".join(f"{share:.1%}" for share in started.held)
        print(f"the effect of positions on the logits of the layers is in the new terms to {shares}")
    print(f"it took {seconds:.2f} s of the processor")
    if target.rotary_dims and not old.args.rotary_dims:
        print("rotary positions rotate queries and keys, which were not trained for it")
    if data is not None and not started.exact:
        print(losses(old, new, data, sequences, seed))
    write_weights(out, model_config(new.args, new.args._name), weights)
    print(f"wrote {out}, without the optimizer's state")
    if left:
        print(f"left behind, as what a task taught: {', '.join(left)}")
    print(f"train on: tupe pretrain DATA --config continue --init-from {shlex.quote(str(out))}")


@app.command()
def export(
    checkpoint: Path = CHECKPOINT,
    data: Path = Argument(help="Corpus of the checkpoint, or the task that it was fine-tuned on."),
    out: Path = Argument(help="New folder."),
    corpus: Path | None = Option(None, help="Folder of the tokenizer and the manifest; DATA by default."),
    no_tokenizer: bool = Option(False, "--no-tokenizer", help="Write no tokenizer."),
    result: list[Path] = Option([], help="result.json of this run, then of other seeds."),
    license: str | None = Option(None, help="License identifier for the model card, such as mit."),
    base_model: str | None = Option(None, help="Exported model that was fine-tuned, for the card."),
) -> None:
    """Write a checkpoint as a folder that Hugging Face Transformers loads, with a tokenizer and a model card.

    tupe export checkpoints/tupe_a_base/checkpoint_best.pt data/wiki tupe-base
    """
    from tupe.hf.export import export
    from tupe.util import read_json

    about = {"results": result, "licence": license, "base_model": base_model}
    difference, notes = export(checkpoint, data, out, corpus, not no_tokenizer, **about)
    for note in notes:
        print(f"note: {note}")
    print(f"largest difference from the checkpoint's scores: {difference:.1e} of the largest")
    architecture = read_json(out / "config.json")["architectures"][0]
    auto = "AutoModel" + architecture.removeprefix("Tupe").replace("ForMaskedLM", "")  # without a task, the features
    print(f'wrote {out}; load it with: {auto}.from_pretrained("{out}", trust_remote_code=True)')


@app.command()
def export_onnx(folder: Path = Argument(help="Folder that `tupe export` or save_pretrained wrote.")) -> None:
    """Write the model in FOLDER as an ONNX graph for any batch and length, and check it against PyTorch.

    The graph is FOLDER/onnx/model.onnx.
    """
    from tupe.hf.onnx import export_onnx

    path, difference = export_onnx(folder)
    print(f"largest difference from PyTorch: {difference:.1e} of the largest output")
    print(f"wrote {path}")


app.add_typer(convert, name="convert")


@convert.command()
def average(
    checkpoints: list[Path] = Argument(help="Checkpoints of a run, or with --last the run's folder."),
    out: Path = NEW_FILE,
    last: int | None = Option(None, help="Take the last so many checkpoints of the folder."),
) -> None:
    """Write the mean of checkpoints of a run, without the optimizer.

    tupe convert average checkpoints/run average.pt --last 10
    """
    from tupe.checkpoints.edit import average, last_checkpoints
    from tupe.checkpoints.load import write_state

    check_new(out)
    paths = checkpoints if last is None else last_checkpoints(checkpoints[0], last)
    write_state(out, average(paths))
    print(f"average of {len(paths)} checkpoints: {out}")


@convert.command()
def positions(
    checkpoint: Path = Argument(help="Encoder or ELECTRA of this plugin."),
    number: int = Argument(help="New number of positions, [CLS] included."),
    out: Path = NEW_FILE,
    rule: Literal["repeat", "interpolate"] = Option("repeat", help="What absolute positions do."),
) -> None:
    """Give a checkpoint more positions than it was trained with; training resumes from it.

    Relative terms extend beyond the distances that they know. Absolute terms repeat or interpolate their rows after
    [CLS].

    \b
    tupe convert positions checkpoints/tupe_a_base/checkpoint_last.pt 1024 longer.pt
    """
    from tupe.checkpoints.edit import extend_positions
    from tupe.checkpoints.load import write_state

    check_new(out)
    done = extend_positions(checkpoint, number, rule)
    write_state(out, done.state)
    print(f"{done.old} to {number} positions: {out}")
    for name in done.changed:
        print(f"  {name} {[*done.state['model'][name].shape]}")
    if not done.changed:
        print("  no parameter has rows for positions: the relative terms go on")
    if not done.optimizer:
        print("warning: the optimizer's state is not in it: resume with --reset-optimizer")


@convert.command()
def electra(checkpoint: Path = Argument(help="Checkpoint of a model with a generator."), out: Path = NEW_FILE) -> None:
    """Write the discriminator of an electra_... checkpoint as the plain model of its system.

    Fine-tuning does not need it: it takes the discriminator from an electra_... checkpoint by itself.
    """
    from tupe.checkpoints.edit import export_discriminator

    check_new(out)
    print(f"wrote {out}, a {export_discriminator(checkpoint, out)} without a language-model head")


@convert.command()
def release(checkpoint: Path = Argument(help="Checkpoint of the authors' code."), out: Path = NEW_FILE) -> None:
    """Convert a checkpoint of the TUPE authors' release, TUPE-A or TUPE-R, without running code in the file."""
    from tupe.checkpoints.release import convert_release

    check_new(out)
    convert_release(checkpoint, out)
    print(f"wrote {out}; fine-tune it with: tupe finetune TASK {shlex.quote(str(out))} DATA")


@app.command()
def doctor() -> None:
    """Examine this machine: versions, imports, the attention backends, a training step.

    Exits with status 1 if something does not work.
    """
    from tupe.cli.doctor import examine

    raise typer.Exit(not examine())


@app.command()
def user_dir() -> None:
    """Print the folder for fairseq's --user-dir: this package, or the one that TUPE_USER_DIR names."""
    from tupe.util import user_dir

    print(user_dir())


@app.command()
def config_dir(
    kind: Literal["", "pretraining", "finetuning", "translation", "study"] = Argument("", help="Kind of training."),
) -> None:
    """Print the folder of the shipped configurations, for `fairseq-hydra-train --config-dir`."""
    from tupe.util import config_dir

    print(config_dir(kind))


def _named(paths: list[Labelled]) -> dict[str, Path]:
    """Map labels, which default to the paths, to the paths."""
    labels = [label or str(path) for label, path in paths]
    _check_labels(labels)
    return dict(zip(labels, (path for _, path in paths)))


def _check_labels(labels: list[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"Two are called '{label}'. Give each its own label, as in LABEL=PATH.")


def _open_encoders(checkpoints: list[Labelled]) -> list[Any]:
    """Open the encoders of checkpoints. The label defaults to the model and its fields."""
    from tupe.analysis.checkpoint import open_encoder

    encoders = [open_encoder(path, label) for label, path in checkpoints]
    _check_labels([encoder.shown_as for encoder in encoders])
    return encoders


def _read_runs(runs: list[Labelled]) -> dict[str, Any]:
    from tupe.analysis.curves import read_log

    return {label: read_log(path) for label, path in _named(runs).items()}
