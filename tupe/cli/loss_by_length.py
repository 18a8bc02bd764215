"""Prints the loss of the same masked tokens in windows of several lengths, also longer than in training.

A row is a model and a length: bits a masked token, and the difference from windows as long as the sequences of its
training, which are what a sliding window gives, with its 95% interval. --extend changes the other rows, and never those
windows.

Example: tupe loss-by-length TUPE-R=tupe.pt T5=t5.pt --data DATA --lengths 128 256 512 1024 --figure length.png
"""

import argparse
from pathlib import Path

from tupe.cli._labels import named, split_label
from tupe.util import check_new, write_json

_TIMES = (1, 2, 4, 8)  # lengths by default, as multiples of the length of training


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = "encoders; the label defaults to the path"
    add("checkpoints", type=split_label, nargs="+", metavar="[LABEL=]CHECKPOINT", help=help_)
    add("--data", type=Path, required=True, help="the prepared corpus, whose held-out text is read")
    help_ = "lengths of windows (default: 1, 2, 4 and 8 times the shortest length of training)"
    add("--lengths", type=int, nargs="+", metavar="N", help=help_)
    help_ = "number of drawings of the masks (default: %(default)s)"
    add("--masks", type=int, default=4, metavar="N", help=help_)
    help_ = "tokens of the held-out text, at most (default: %(default)s)"
    add("--tokens", type=int, default=100_000, metavar="N", help=help_)
    help_ = "a row more for each length: with a window of half the length of training"
    add("--extend", choices=("window",), nargs="+", default=[], help=help_)
    add("--seed", type=int, default=1, help="seed of the masks (default: %(default)s)")
    add("--json", type=Path, metavar="FILE", help="write all numbers to FILE")
    add("--figure", type=Path, metavar="FILE", help="file of a picture: .png, .pdf, .svg, ...")


def run(args: argparse.Namespace) -> None:
    """Measure each checkpoint at each length; say which lengths it lacks."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.figure import save_figure
    from tupe.analysis.length import loss_by_length, plot_loss_by_length

    for out in filter(None, (args.json, args.figure)):
        check_new(out)

    checkpoints = named(args.checkpoints)
    trained = {name: open_encoder(path).trained_length for name, path in checkpoints}
    lengths = sorted({*(args.lengths or [times * min(trained.values()) for times in _TIMES])})
    longest = max(*lengths, *trained.values())
    print(f"{'':<32}{'length':>8}{'bits':>8}{'difference':>12}{'95% interval':>20}")
    models, lines = {}, {}
    for name, path in checkpoints:
        found = loss_by_length(
            path, args.data, lengths, window=bool(args.extend), longest=longest, tokens=args.tokens, masks=args.masks,
            seed=args.seed,
        )  # fmt: skip
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
    if args.json:
        settings = {"data": str(args.data), "tokens": args.tokens, "masks": args.masks, "seed": args.seed}
        write_json(args.json, {**settings, "models": models})
        print(f"numbers: {args.json}")
    if args.figure:
        save_figure(plot_loss_by_length(lines), args.figure)
        print(f"loss by length: {args.figure}")
