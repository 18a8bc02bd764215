"""Fine-tunes a checkpoint on one task with the papers' settings; docs/glue.md and docs/tasks.md explain it.

Example: tupe finetune CoLA checkpoints/tupe_base/checkpoint_last.pt data/glue optimization.lr=[2e-5]
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "task",
        metavar="TASK",
        help="CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI; XNLI, SQuAD, TyDiQA, or one of your own",
    )
    add("checkpoint", metavar="CHECKPOINT", type=Path, help="a pre-trained checkpoint of this plugin")
    add("data", metavar="DATA", type=Path, help="the prepared task, or the folder of all")
    add("overrides", nargs="*", default=[], metavar="key=value", help="changes of configs/finetuning")


def run(args: argparse.Namespace) -> None:
    from tupe.experiments.finetune import finetune
    from tupe.experiments.queue import finish

    done = finish(finetune(args.task, args.checkpoint, args.data, args.overrides))
    if done.before:
        print(f"{done.folder} holds a finished run: to train anew, remove it or set checkpoint.save_dir")
    print(f"{args.task}: {done.result.sentence(done.folder)}")
