"""Prepares parallel text for translation: one joint SentencePiece model, fairseq's binary data and a manifest.

Files are named by what stands before the language: --train data/train reads data/train.en and data/train.de, plain or
.gz, .xz, .bz2. Training pairs are cleaned by length and ratio; validation and test data stay as they are.
Example: tupe prepare-translation OUT en de --train data/train --valid data/val --test data/test_2016 --vocab-size 10000
"""

import argparse
from pathlib import Path

from tupe.util import available_cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder of the prepared data")
    add("source", metavar="SOURCE", help="language that is translated, as its files end: en")
    add("target", metavar="TARGET", help="language of the translations: de")
    add("--train", required=True, metavar="PREFIX", help="training data, without the language")
    add("--valid", required=True, metavar="PREFIX", help="validation data")
    add("--test", nargs="*", default=[], metavar="PREFIX", help="test data, one or more; the second becomes test1")
    help_ = "symbols of both languages (default: %(default)s)"
    add("--vocab-size", type=int, default=32000, metavar="N", help=help_)
    add("--model-type", choices=["bpe", "unigram"], default="bpe", help="SentencePiece's model (default: %(default)s)")
    add("--lower-case", action="store_true", help="fold case in the SentencePiece model")
    add("--max-tokens", type=int, default=250, metavar="N", help="longest training side, in tokens (default: 250)")
    help_ = "highest ratio of the lengths of a training pair (default: %(default)s)"
    add("--max-ratio", type=float, default=1.5, metavar="R", help=help_)
    add("--workers", type=int, default=available_cores(), metavar="N", help="processes (default: all cores)")


def run(args: argparse.Namespace) -> None:
    from tupe.data.glue.report import same_as_training
    from tupe.data.parallel import pool
    from tupe.data.translation.parallel_text import ParallelText
    from tupe.data.translation.prepare import Settings, prepare

    languages = (args.source, args.target)
    settings = Settings(languages, args.vocab_size, args.model_type, args.lower_case, args.max_tokens, args.max_ratio)
    prefixes = {"train": [args.train], "valid": [args.valid], "test": args.test}
    splits = {name: [ParallelText.find(p, languages) for p in found] for name, found in prefixes.items() if found}
    with pool(args.workers) as map_:
        content = prepare(args.out, splits, settings, map_)
    for name, counts in content["splits"].items():
        print(f"{name:<6} " + ", ".join(f"{number:,} {what}" for what, number in counts.items() if number))
    for line in same_as_training({name: [*files.values()] for name, files in content["files"].items()}):
        print(line)
    for name, files in content["files"].items():
        if len({*files.values()}) == 1:
            print(f"warning: source and target of {name} are the same text: a model would learn to copy")
    print(f"data: {args.out}")
