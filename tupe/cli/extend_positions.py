"""Writes a checkpoint with more positions than it was trained with; training resumes from it.

Relative terms extend beyond the distances that they know. Absolute terms repeat or interpolate their rows after [CLS],
as --rule says. A short training at the new length makes up for the loss: docs/pretraining.md.

Example: tupe extend-positions checkpoints/tupe_base/checkpoint_last.pt 1024 longer.pt
         tupe loss-by-length longer.pt --data DATA --lengths 512 1024
"""

import argparse
from pathlib import Path

from tupe.util import check_new


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="an encoder or ELECTRA of this plugin")
    add("positions", type=int, metavar="POSITIONS", help="their new number, [CLS] included")
    add("out", type=Path, metavar="OUT", help="file to write, a new one")
    add("--rule", choices=["repeat", "interpolate"], default="repeat", help="for absolute positions (default: repeat)")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.edit import extend_positions
    from tupe.checkpoints.load import write_state

    check_new(args.out)
    done = extend_positions(args.checkpoint, args.positions, args.rule)
    write_state(args.out, done.state)
    print(f"{done.old} to {args.positions} positions: {args.out}")
    for name in done.changed:
        print(f"  {name} {[*done.state['model'][name].shape]}")
    if not done.changed:
        print("  no parameter has rows for positions: the relative terms go on")
    if not done.optimizer:
        print("warning: the optimizer's state is not in it: resume with --reset-optimizer")
