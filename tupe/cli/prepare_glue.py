"""Prepares tasks of GLUE, or tasks of your own, with the text processing and vocabulary of a prepared corpus.

Example: tupe prepare-glue glue_data data/wiki data/glue CoLA STS-B
         tupe prepare-glue my_files data/wiki data --tasks my_tasks.yaml
"""

import argparse
from pathlib import Path

from tupe.data.glue.tasks import TASKS
from tupe.util import available_cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("glue", type=Path, metavar="GLUE_DIR", help="the official download: CoLA/train.tsv and so on")
    add("corpus", type=Path, metavar="CORPUS_MANIFEST", help="manifest.json of a prepared corpus, or its folder")
    add("out", type=Path, metavar="OUT", help="gets a folder for each task")
    add("names", metavar="TASK", nargs="*", default=[], help=f"{', '.join(TASKS)} (default: all in GLUE_DIR)")
    add("--tasks", type=Path, metavar="FILE", help="YAML of tasks of your own, whose files are in GLUE_DIR")
    add("--partial", action="store_true", help="take files that do not have as many rows as published")
    add("--workers", type=int, default=available_cores(), metavar="N", help="processes (default: all cores)")


def run(args: argparse.Namespace) -> None:
    from tupe.data.corpus.manifest import Manifest
    from tupe.data.glue.prepare import prepare, present
    from tupe.data.glue.reader import read_tasks
    from tupe.data.parallel import pool

    known = read_tasks(args.tasks, args.glue) if args.tasks else TASKS
    chosen = [known[name] for name in args.names] or [task for task in known.values() if present(task, args.glue)]
    if not args.names and len(chosen) < len(known):
        print(f"not in {args.glue}: {', '.join(name for name, task in known.items() if task not in chosen)}")
    corpus = Manifest.load(args.corpus)
    with pool(args.workers) as map_:
        for content in prepare(chosen, args.glue, corpus, args.out, args.partial, map_):
            print("\n".join(content.lines()), flush=True)
    print(f"data: {args.out}")
