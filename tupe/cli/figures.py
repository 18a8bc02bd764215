"""Draw and measure models."""

from pathlib import Path
from typing import Any, Literal

from typer import Argument, Option

from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import plot_training, read_log
from tupe.analysis.figure import heat_maps, save_figure
from tupe.analysis.logits import logit_ranks, plot_ranks
from tupe.analysis.page import FIGURES, write_page
from tupe.analysis.text import read_tokens
from tupe.cli.options import Labelled, Values, check_labels, listed, split_label
from tupe.finetune.table import as_text, read_sweep
from tupe.util import UserError, check_new, write_json

CHECKPOINTS = Argument(parser=split_label, metavar="[LABEL=]CHECKPOINT")
DATA = Option(None, help="Prepared corpus, for its vocabulary and its held-out text.")
TEXT = Option(None, help="Text file that replaces the held-out text.")
SEQUENCES = Option(8, help="Sequences of the text, at most.")
Figure = Literal["position", "reset", "similarity", "segments", "correlations", "ranks", "training"]


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
                raise UserError(f"{encoder.shown_as} has no such figure. docs/studies.md lists the systems that have.")
            maps = FIGURES[figure].draw(encoder, length if texts[0] is None else texts[0])
            if head:
                pair = slice(2 * head - 2, 2 * head)
                maps = maps._replace(values=maps.values[pair], names=maps.names[pair])
            drawn = heat_maps(maps)
    save_figure(drawn, out)
    print(f"{figure}: {out}")


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

    tupe report TUPE-A=a/checkpoint_last.pt BERT-A=b/checkpoint_last.pt report.html --data data/wiki \\
        --runs TUPE-A=a --runs BERT-A=b --against BERT-A --glue TUPE-A=runs/glue/a
    """
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

    tupe loss-by-length TUPE-R=tupe.pt T5=t5.pt --data data/wiki --lengths 128,256,512 --figure length.png
    """
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


def _named(paths: list[Labelled]) -> dict[str, Path]:
    """Map labels, which default to the paths, to the paths."""
    labels = [label or str(path) for label, path in paths]
    check_labels(labels)
    return dict(zip(labels, (path for _, path in paths)))


def _open_encoders(checkpoints: list[Labelled]) -> list[Any]:
    """Open the encoders of checkpoints. The label defaults to the model and its fields."""
    encoders = [open_encoder(path, label) for label, path in checkpoints]
    check_labels([encoder.shown_as for encoder in encoders])
    return encoders


def _read_runs(runs: list[Labelled]) -> dict[str, Any]:
    return {label: read_log(path) for label, path in _named(runs).items()}
