"""Prints what a pre-training run will be, and refuses what cannot work; scripts/pretrain.sh begins with it.

Example: tupe pretraining-plan --nodes 2 --gpus 8 --gpu h100 configs/pretraining base task.data=DATA \\
             optimization.update_freq=[1]
"""

import argparse
from pathlib import Path

from tupe.cli import _plan
from tupe.cli._types import real


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--gpu", metavar="KIND", help="such as h100 or a100: the plan then says hours")
    add("--mfu", type=real(0.001, 1), default=0.4, help="share of the GPUs' 16-bit peak that is used (default: 0.4)")
    add("--measured", type=Path, metavar="FILE", help="model.json of benchmarks/model.py: hours by its tokens a second")
    add("--max-unused", type=real(0, 1), default=0.01, metavar="SHARE",
        help="of the tokens that may be in lines too long to be used (default: %(default)s)")  # fmt: skip
    _plan.add_arguments(parser)


def run(args: argparse.Namespace) -> None:
    from tupe.plan import pretraining

    launch = {"gpu": args.gpu, "mfu": args.mfu, "max_unused": args.max_unused}
    if args.measured is not None:
        from tupe.analysis.cost import read_costs

        launch["measured"] = read_costs(args.measured)
    _plan.run(args, pretraining, **launch)
