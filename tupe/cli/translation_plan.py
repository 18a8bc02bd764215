"""Prints what the training of a translation model will be; scripts/translate_train.sh begins with it.

Example: tupe translation-plan --gpus 8 configs/translation multi30k_en_de task.data=DATA optimization.update_freq=[1]
"""

import argparse

from tupe.cli import _plan

add_arguments = _plan.add_arguments


def run(args: argparse.Namespace) -> None:
    from tupe.plan import translation

    _plan.run(args, translation)
