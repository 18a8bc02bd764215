"""Prints the plan of a training: its parameters, batch, updates, epochs, and with --gpu its hours.

scripts/pretrain.sh and translate_train.sh begin with it.
Example: tupe plan --nodes 2 --gpus 8 --gpu h100 configs/pretraining base task.data=DATA optimization.update_freq=[1]
         tupe plan --gpus 8 configs/translation multi30k_en_de task.data=DATA optimization.update_freq=[1]
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--nodes", type=int, default=1, metavar="N", help="machines (default: %(default)s)")
    add("--gpus", type=int, default=1, metavar="N", help="GPUs, or processes on the CPU, of each (default: 1)")
    add("--gpu", metavar="KIND", help="v100, a100, h100, h200 or b200: the plan of a pre-training then has hours")
    add("--mfu", type=float, default=0.4, help="fraction of the GPUs' 16-bit peak that is used (default: %(default)s)")
    add("folder", metavar="FOLDER", type=Path, help="folder of the configurations")
    add("config", metavar="CONFIG", help="name of a configuration")
    add("overrides", nargs="*", default=[], metavar="key=value", help="changes of the configuration")


def run(args: argparse.Namespace) -> None:
    from tupe.plan import Launch, plan, read_config

    cfg = read_config(args.folder, args.config, args.overrides)
    for line in plan(cfg, Launch(args.nodes, args.gpus, args.gpu, args.mfu)):
        print(f"plan: {line}", flush=True)
