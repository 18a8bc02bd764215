"""Prints what the training of a translation model will be; scripts/translate_train.sh begins with it.

Example: tupe translation-plan --gpus 8 configs/translation multi30k_en_de task.data=DATA optimization.update_freq=[1]
"""

import argparse

from tupe.cli._plan import add_arguments, say_and_start

__all__ = ["add_arguments", "run"]


def run(args: argparse.Namespace) -> None:
    from tupe.plan.translation import made_of, plan

    say_and_start(args, "scripts/translate_train.sh", plan, made_of)
