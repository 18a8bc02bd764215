"""Prepares a corpus: cleaned text, a SentencePiece vocabulary, fairseq's binary data and a manifest.

Inputs in several languages are given as LANGUAGE=INPUT; each language gets a folder, all share one vocabulary.
Example: tupe prepare-corpus data/wiki extracted/ --profile paper
Example: tupe prepare-corpus data/100 de=dewiki/ fr=frwiki/ --languages others/ --vocab-size 120000
"""

import argparse
from pathlib import Path

from tupe.data.text.stages import LANGUAGES, PROFILES, STAGES
from tupe.util import available_cores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="folder of the prepared corpus")
    add("inputs", type=Path, metavar="INPUT", nargs="*", default=[], help="text files, folders; de=INPUT: German ones")
    add("--books", type=Path, metavar="FOLDER", nargs="+", default=[], help="folders whose files are one document each")
    help_ = "folders whose files and folders are called by their languages, as de.txt.xz and de"
    add("--languages", type=Path, metavar="FOLDER", nargs="+", default=[], help=help_)
    add("--profile", choices=PROFILES, help="which stages run (default: paper, of many languages sentencepiece)")
    add("--language", help="language of the rules for sentences and tokens (default: en for paper, else xx: any)")
    help_ = "symbols of the dictionary (default: %(default)s)"
    add("--vocab-size", type=int, default=32_768, metavar="N", help=help_)
    help_ = "kind of SentencePiece model (default: bpe, for many languages unigram)"
    add("--model-type", choices=["bpe", "unigram"], help=help_)
    help_ = "the vocabulary learns from each language in proportion to its size^A (default: %(default)s)"
    add("--vocab-alpha", type=float, default=0.5, metavar="A", help=help_)
    help_ = "take the vocabulary of this prepared corpus, or of an imported model; train none"
    add("--vocabulary", type=Path, metavar="FROM", help=help_)
    add("--valid-documents", type=number_or_share, metavar="N", default=0.01, help="held out: number or share (0.01)")
    add("--max-tokens", type=int, default=126, metavar="N", help="longer lines are cut (default: %(default)s)")
    add("--shards", type=int, metavar="N", help="folders of training data (default: one a gigabyte of text)")
    add("--workers", type=int, default=available_cores(), metavar="N", help="processes (default: all cores)")
    for name, stage in STAGES.items():
        add(f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=f"stage: {stage.help}")


def number_or_share(text: str) -> int | float:  # argparse shows the name
    try:
        return int(text)
    except ValueError:
        return float(text)


def run(args: argparse.Namespace) -> None:
    from tupe.data.corpus.inputs import find
    from tupe.data.corpus.manifest import Manifest
    from tupe.data.corpus.pipeline import prepare
    from tupe.data.corpus.report import lines
    from tupe.data.corpus.settings import IMPORTED, Settings

    inputs = find(args.inputs, args.books, args.languages)
    many = bool(inputs[0].language)
    shared = Manifest.load(args.vocabulary) if args.vocabulary else None
    profile = args.profile or ("sentencepiece" if many else "paper")
    stages, language = PROFILES[profile], LANGUAGES[profile]
    if shared and shared.content.imported and not args.profile:  # as the model read its text
        theirs = shared.content.settings
        profile, stages, language = IMPORTED, theirs.stages, theirs.language
    chosen = {name: getattr(args, name.replace("-", "_")) for name in STAGES}
    settings = Settings(
        profile=profile,
        stages=tuple(n for n, on in chosen.items() if (n in stages if on is None else on)),
        language=args.language or language,
        vocab_size=args.vocab_size,
        model_type=args.model_type or ("unigram" if many else "bpe"),
        valid_documents=args.valid_documents,
        shards=args.shards,
        max_tokens=args.max_tokens,
        vocab_alpha=args.vocab_alpha,
    )
    if shared:
        settings = settings.with_vocabulary_of(shared.content.settings, shared.content.checksums[shared.model.name])
    content = prepare(args.out, inputs, settings, args.workers, shared)
    print("\n".join(lines(args.out, content)))
