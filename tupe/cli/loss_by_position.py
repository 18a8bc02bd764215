"""Prints the validation loss by position, at lengths also beyond that of training; --output draws it.

A row is a model and a length: bits a masked token, in all and in each quarter, without [CLS], which is always known.

Example: tupe loss-by-position TUPE-R=tupe.pt longer.pt --data DATA --lengths 128 256 --output length.png
"""

import argparse
from pathlib import Path

from tupe.cli._labels import named, split_label
from tupe.util import check_new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    help_ = "encoders; the label defaults to the path"
    add("checkpoints", type=split_label, nargs="+", metavar="[LABEL=]CHECKPOINT", help=help_)
    add("--data", type=Path, required=True, help="the prepared corpus, whose held-out text is read")
    add("--lengths", type=int, nargs="+", metavar="N", help="of sequences (default: the model's positions)")
    help_ = "number of sequences of each length, at most (default: all)"
    add("--sequences", type=int, default=1 << 30, metavar="N", help=help_)
    add("--seed", type=int, default=1, help="seed of the masks (default: %(default)s)")
    add("--output", type=Path, metavar="FILE", help="file of a picture: .png, .pdf, .svg, ...")


def run(args: argparse.Namespace) -> None:
    """Measure each checkpoint at each length; say which lengths it lacks, and leave them out."""
    from tupe.analysis.checkpoint import open_encoder
    from tupe.analysis.length import TooLong, loss_by_position, plot_loss_by_position, shown

    if args.output:
        check_new(args.output)

    checkpoints = named(args.checkpoints)
    positions = {name: open_encoder(path).sentence_encoder.max_positions for name, path in checkpoints}  # all, at once
    found, missing = {}, None
    print(f"{'':<40}{'length':>8}{'bits':>8}" + "".join(f"{f'{q}/4':>8}" for q in range(1, 5)))
    for name, path in checkpoints:
        for length in args.lengths or [positions[name]]:
            try:
                loss = loss_by_position(path, args.data, length, args.sequences, args.seed)
            except TooLong as error:
                missing = error
                print(f"{name:<40}{length:>8}  too long for it")
                continue
            found[f"{name}, {length} positions"] = loss
            means = [loss.mean(1), *(loss.mean(max(1, q * length // 4), (q + 1) * length // 4) for q in range(4))]
            print(f"{name:<40}{length:>8}" + "".join(f"{shown(mean):>8}" for mean in means))
    if not found:
        raise missing
    if args.output:
        plot_loss_by_position(found, args.output)
        print(f"loss by position: {args.output}")
