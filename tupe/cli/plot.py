"""Draws one of the papers' figures: of checkpoints, or of the logs of runs.

Examples: tupe plot position checkpoints/tupe_base/checkpoint_last.pt --output position.png
          tupe plot ranks TUPE-R=tupe.pt DIET-ABS=diet.pt --data DATA --output ranks.pdf
          tupe plot training TUPE-R=checkpoints/tupe_base BERT-A=checkpoints/bert_a_base --output curves.svg
docs/figures.md shows them, and says which systems have which.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tupe.cli._labels import open_encoders, read_runs, split_label
from tupe.cli._text import add_text
from tupe.util import check_new

if TYPE_CHECKING:
    from torch import Tensor

    from tupe.models.tupe import TupeLanguageModelEncoder


def _position(args: argparse.Namespace) -> None:
    from tupe.analysis.position import plot_position, position_correlation

    plot_position(position_correlation(_encoder(args), args.length), args.output)


def _reset(args: argparse.Namespace) -> None:
    from tupe.analysis.position import plot_reset, position_correlation

    plot_reset(position_correlation(_encoder(args), args.length), args.head, args.output)


def _similarity(args: argparse.Namespace) -> None:
    from tupe.analysis.similarity import plot_similarity, position_similarity

    plot_similarity(position_similarity(_encoder(args)), args.output)


def _segments(args: argparse.Namespace) -> None:
    from tupe.analysis.segments import plot_segments, segment_values

    plot_segments(segment_values(_encoder(args)), args.output)


def _correlations(args: argparse.Namespace) -> None:
    from tupe.analysis.logits import first_layer_correlations, plot_correlations
    from tupe.analysis.position import has_reset

    encoder = _encoder(args)
    [tokens] = _tokens(args, [encoder])
    title = f"Correlations in the first layer of {encoder.shown_as}, {len(tokens)} sequences"
    plot_correlations(first_layer_correlations(encoder, tokens), title, args.output, has_reset(encoder.args))


def _ranks(args: argparse.Namespace) -> None:
    from tupe.analysis.logits import logit_ranks, plot_ranks

    encoders = open_encoders(args.paths)
    texts = _tokens(args, encoders)
    ranks = {encoder.shown_as: logit_ranks(encoder, tokens) for encoder, tokens in zip(encoders, texts)}
    plot_ranks(ranks, texts[0].shape[1], args.output)


def _training(args: argparse.Namespace) -> None:
    from tupe.analysis.curves import plot_training

    logs = read_runs(args.paths)
    plot_training(logs, args.output, args.title, args.against)


def _encoder(args: argparse.Namespace) -> TupeLanguageModelEncoder:
    from tupe.analysis.checkpoint import open_encoder

    label, path = args.paths[0]
    return open_encoder(path, label)


def _tokens(args: argparse.Namespace, encoders: list[TupeLanguageModelEncoder]) -> list[Tensor]:
    from tupe.analysis.text import read_tokens

    return [read_tokens(encoder, args.data, args.length, args.sequences, args.text) for encoder in encoders]


class Figure(NamedTuple):
    shows: str  # what is drawn, and of what
    draw: Callable[[argparse.Namespace], None]  # reads the paths, and writes the picture
    options: dict[str, Any]  # its optional arguments, with their defaults


_TEXT = {"data": None, "text": None, "length": 128, "sequences": 8}
_HEAD = {"length": None, "head": 1}
_ENDS = {"against": None, "title": "Training"}
FIGURES = {
    "position": Figure("position correlation of every head of a CHECKPOINT", _position, {"length": None}),
    "reset": Figure("one head of a CHECKPOINT before the reset of [CLS] and after it", _reset, _HEAD),
    "similarity": Figure("cosine similarity of the position vectors of a CHECKPOINT", _similarity, {}),
    "segments": Figure("what every head of a CHECKPOINT adds between segments", _segments, {}),
    "correlations": Figure("words and positions in the first layer of a CHECKPOINT", _correlations, _TEXT),
    "ranks": Figure("rank of the logits in each layer of CHECKPOINTS", _ranks, _TEXT),
    "training": Figure("loss and learning rate of RUNS", _training, _ENDS),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "figures:\n" + "\n".join(f"  {name:<14}{figure.shows}" for name, figure in FIGURES.items())
    add = parser.add_argument
    add("figure", choices=FIGURES, metavar="FIGURE", help="one of those below")
    help_ = "checkpoint, folder of a run, or its log"
    add("paths", nargs="+", metavar="[LABEL=]PATH", type=split_label, help=help_)
    add("--output", type=Path, required=True, metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")
    add("--head", type=int, metavar="N", help=f"{_of('head')}: which one, from 1 (default: 1)")
    help_ = f"{_of('against')}: a run; say when the others reach the validation loss that it ends with"
    add("--against", metavar="LABEL", help=help_)
    add("--title", help=f"{_of('title')}: stands above the figure")
    add("--length", type=int, metavar="N", help=f"{_of('length')}: positions (default: all, or 128 of a text)")
    add_text(parser, of=_of("data"))


def _of(option: str) -> str:
    return ", ".join(name for name, figure in FIGURES.items() if option in figure.options)


def run(args: argparse.Namespace) -> None:
    check_new(args.output)
    figure = FIGURES[args.figure]
    for name in {name for figure in FIGURES.values() for name in figure.options}:
        if getattr(args, name) is None:
            setattr(args, name, figure.options.get(name))
    figure.draw(args)
    print(f"{args.figure}: {args.output}")
