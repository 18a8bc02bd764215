"""Draw and measure models."""

from pathlib import Path
from typing import Any, Literal

from typer import Argument, Option

from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import plot_training, read_log
from tupe.analysis.figure import heat_maps, save_figure
from tupe.analysis.length import loss_by_length as measure
from tupe.analysis.length import plot_loss_by_length
from tupe.analysis.logits import logit_ranks, plot_ranks
from tupe.analysis.page import FIGURES, write_page
from tupe.analysis.text import read_tokens
from tupe.finetune.table import as_text, read_sweep
from tupe.util import UserError, check_labels, check_new, labelled, write_json

CHECKPOINTS = Argument(metavar="[LABEL=]CHECKPOINT")
DATA = Option(None, help="Prepared corpus, for its vocabulary and its held-out text.")
AGAINST = Option(None, help="Label of the run whose final loss is the others' target.")
Figure = Literal["position", "reset", "similarity", "segments", "correlations", "ranks", "training"]


def plot(
    figure: Figure = Argument(help="One of the figures above."),
    paths: list[str] = Argument(metavar="[LABEL=]PATH", help="Checkpoints or runs."),
    out: Path = Argument(help="New image file: .png, .pdf, .svg, ..."),
    data: Path | None = DATA,
    length: int | None = Option(None, help="Number of positions; all by default, 128 for correlations and ranks."),
    against: str | None = AGAINST,
) -> None:
    """Draw one of the papers' figures for a checkpoint, or the training curves of runs.

    \b
    position      position correlation of every head of a checkpoint
    reset         every head of a checkpoint before and after the reset of [CLS]
    similarity    cosine similarity of the position vectors of a checkpoint
    segments      term of every head of a checkpoint for each pair of segments
    correlations  content and positions in the first layer of a checkpoint, on --data
    ranks         rank of the logits in each layer of checkpoints, on --data
    training      loss and learning rate of runs

    tupe plot position checkpoints/tupe_a_base/checkpoint_last.pt position.png
    """
    check_new(out)
    if figure == "training":
        drawn = plot_training(_read_runs(paths), against)
    elif figure == "ranks":
        encoders = _open_encoders(paths)
        texts = [read_tokens(encoder, data, length or 128) for encoder in encoders]
        ranks = {encoder.shown_as: logit_ranks(encoder, tokens) for encoder, tokens in zip(encoders, texts)}
        drawn = plot_ranks(ranks, max(tokens.shape[1] for tokens in texts))
    else:
        [encoder] = _open_encoders(paths)
        if not FIGURES[figure].has(encoder.args):
            raise UserError(f"'{figure}' does not apply to {encoder.shown_as}. docs/studies.md lists the systems.")
        on_text = figure == "correlations"
        inputs = read_tokens(encoder, data, length or 128) if on_text else length
        drawn = heat_maps(FIGURES[figure].draw(encoder, inputs))
    save_figure(drawn, out)
    print(f"{figure}: {out}")


def report(
    checkpoints: list[str] = CHECKPOINTS,
    out: Path = Argument(help="New page, .html."),
    runs: list[str] = Option([], help="[LABEL=]RUN, for the curves."),
    against: str | None = AGAINST,
    glue: list[str] = Option([], help="[LABEL=]SWEEP, for the table."),
    data: Path | None = DATA,
    length: int = Option(128, help="Number of positions, and of tokens per sequence."),
) -> None:
    """Compare models on one HTML page: equations, numbers and figures. The page has no scripts and loads nothing.

    tupe report TUPE-A=a/checkpoint_last.pt BERT-A=b/checkpoint_last.pt report.html --data data/wiki \\
        --runs TUPE-A=a --runs BERT-A=b --against BERT-A --glue TUPE-A=runs/glue/a
    """
    check_new(out)
    encoders, tables = _open_encoders(checkpoints), {}
    if rows := [read_sweep(path, label) for label, path in labelled(glue)]:
        how = "Medians over the seeds, at the best learning rate; ± is the standard deviation over the seeds."
        tables["Fine-tuning"] = how, as_text(rows)
    texts = [read_tokens(encoder, data, length) for encoder in encoders] if data else []
    write_page(out, encoders, length=length, texts=texts, logs=_read_runs(runs), against=against, tables=tables)
    print(f"report: {out}")


def loss_by_length(
    checkpoints: list[str] = CHECKPOINTS,
    data: Path = Option(help="Prepared corpus, whose held-out text is read."),
    lengths: str = Option("", metavar="A,B", help="Lengths of windows."),
    masks: int = Option(4, help="Number of random draws of the masks."),
    tokens: int = Option(100_000, help="Maximum number of tokens of the held-out text."),
    window: bool = Option(False, "--window", help="Also measure with attention_window at half the training length."),
    json: Path | None = Option(None, help="New JSON file for all numbers."),
    figure: Path | None = Option(None, help="New image file."),
) -> None:
    """Print the loss of the same masked tokens in windows of several lengths, including some longer than in training.

    Each row has a model and a length: bits per masked token, and the difference from windows of the model's training
    length, with its 95% interval. By default, the lengths are 1, 2, 4 and 8 times the shortest training length.

    tupe loss-by-length TUPE-R=tupe.pt T5=t5.pt --data data/wiki --lengths 128,256,512 --figure length.png
    """
    for out in filter(None, (json, figure)):
        check_new(out)
    paths = _named(checkpoints)
    trained = {name: open_encoder(path).trained_length for name, path in paths.items()}
    wanted = [int(n) for n in lengths.split(",")] if lengths else [n * min(trained.values()) for n in (1, 2, 4, 8)]
    longest = max(*wanted, *trained.values())
    print(f"{'':<32}{'length':>8}{'bits':>8}{'difference':>12}{'95% interval':>20}")
    rows = {}
    for name, path in paths.items():
        found = measure(path, data, wanted, window=window, longest=longest, tokens=tokens, masks=masks)
        for extension, losses in found.items():
            label = name if extension == "none" else f"{name}, {extension}"
            rows[label] = losses
            for length, (bits, difference, half) in losses.items():
                interval = f"{difference - half:+.3f} to {difference + half:+.3f}"
                print(f"{label:<32}{length:>8}{bits:>8.3f}{difference:>+12.3f}{interval:>20}")
        if missing := sorted({*wanted} - {*found["none"]}):
            print(f"{name:<32}{', '.join(map(str, missing))}: too long; split the text into windows of {trained[name]}")
    if json:
        numbers = {label: {n: loss._asdict() for n, loss in losses.items()} for label, losses in rows.items()}
        write_json(json, {"data": str(data), "tokens": tokens, "masks": masks, "rows": numbers})
        print(f"numbers: {json}")
    if figure:
        save_figure(plot_loss_by_length(rows), figure)
        print(f"loss by length: {figure}")


def _named(arguments: list[str]) -> dict[str, Path]:
    """Map each label to its path; by default, the path is the label."""
    paths = [(label or str(path), path) for label, path in labelled(arguments)]
    check_labels([label for label, _ in paths])
    return dict(paths)


def _open_encoders(checkpoints: list[str]) -> list[Any]:
    """Open the encoders of checkpoints. The label defaults to the model and its fields."""
    encoders = [open_encoder(path, label) for label, path in labelled(checkpoints)]
    check_labels([encoder.shown_as for encoder in encoders])
    return encoders


def _read_runs(runs: list[str]) -> dict[str, Any]:
    return {label: read_log(path) for label, path in _named(runs).items()}
