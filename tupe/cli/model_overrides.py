"""Prints the Hydra overrides with which fine-tuning builds the model of a checkpoint.

Example: fairseq-hydra-train --config-dir configs/finetuning --config-name glue glue=cola \\
             $(tupe model-overrides CHECKPOINT) task.data=DATA ...
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a pre-trained checkpoint of this plugin")


def run(args: argparse.Namespace) -> None:
    from tupe.experiments.settings import model_overrides

    print("\n".join(model_overrides(args.checkpoint)))
