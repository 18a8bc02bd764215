"""Prints the loss of the same masked tokens in windows of several lengths, also longer than in training.

A row is a model and a length: bits a masked token, and the difference from windows as long as the sequences of its
training, which are what a sliding window gives. The model `uses length` where the loss falls, and `holds` where it does
not certainly rise. --extend and --override change the other rows, and never those windows.

Example: tupe loss-by-length TUPE-R=tupe.pt T5=t5.pt --data DATA --lengths 128 256 512 1024 --figure length.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tupe.cli._labels import named, split_label
from tupe.util import check_new, write_json

if TYPE_CHECKING:
    from tupe.analysis.length import LengthLoss

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
    help_ = "fields of the position encoding for these windows, in place of those of training"
    add("--override", type=_field, nargs="+", default=[], metavar="FIELD=VALUE", help=help_)
    add("--seed", type=int, default=1, help="seed of the masks (default: %(default)s)")
    add("--json", type=Path, metavar="FILE", help="write all numbers to FILE, by position too")
    add("--figure", type=Path, metavar="FILE", help="file of a picture: .png, .pdf, .svg, ...")


def _field(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def run(args: argparse.Namespace) -> None:
    """Measure each checkpoint at each length; say which lengths it lacks."""
    import dataclasses

    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.length import loss_by_length, plot_loss_by_length

    for out in filter(None, (args.json, args.figure)):
        check_new(out)

    checkpoints = named(args.checkpoints)
    trained = {name: open_encoder(path).trained_length for name, path in checkpoints}
    lengths = sorted({*(args.lengths or [times * min(trained.values()) for times in _TIMES])})
    longest, overrides = max(*lengths, *trained.values()), dict(args.override)
    print(f"{'':<32}{'length':>8}{'bits':>8}{'difference':>12}{'95% interval':>20}")
    found = {}
    for name, path in checkpoints:
        base, losses = found[name] = loss_by_length(
            path, args.data, lengths, window=bool(args.extend), overrides=overrides, longest=longest,
            tokens=args.tokens, masks=args.masks, seed=args.seed,
        )  # fmt: skip
        print(f"{name:<32}{trained[name]:>8}{base.bits:>8.3f}{'':>34}that of training")
        for extension in dict.fromkeys(("none", *args.extend)):
            label = _label(name, extension)
            if extension not in losses:
                print(f"{label:<32}{'-':>8}{'-':>8}{'':>34}does not apply to this model")
                continue
            for length in lengths:
                loss = losses[extension].get(length)
                if loss is None:
                    print(f"{label:<32}{length:>8}{'-':>8}{'':>34}has {trained[name]} positions: slide such windows")
                elif overrides or (extension, length) != ("none", trained[name]):
                    print(f"{label:<32}{length:>8}{_row(loss)}")
    if args.json:
        models = {
            name: {
                "checkpoint": str(path),
                "trained_length": trained[name],
                "at_trained_length": dataclasses.asdict(found[name][0]),
                "extensions": {
                    extension: {str(n): {**dataclasses.asdict(loss), "verdict": loss.verdict} for n, loss in of.items()}
                    for extension, of in found[name][1].items()
                },
            }
            for name, path in checkpoints
        }
        settings = {"data": str(args.data), "tokens": args.tokens, "masks": args.masks, "seed": args.seed}
        write_json(args.json, {**settings, "overrides": overrides, "models": models})
        print(f"numbers: {args.json}")
    if args.figure:
        measured = ((name, *item) for name, (_, losses) in found.items() for item in losses.items())
        plot_loss_by_length({_label(name, extension): losses for name, extension, losses in measured}, args.figure)
        print(f"loss by length: {args.figure}")


def _label(name: str, extension: str) -> str:
    return name if extension == "none" else f"{name}, {extension}"


def _row(loss: LengthLoss) -> str:
    low, high = (loss.difference + side * loss.half_interval for side in (-1, 1))
    return f"{loss.bits:>8.3f}{loss.difference:>+12.3f}{f'{low:+.3f} to {high:+.3f}':>20}  {loss.verdict}"
