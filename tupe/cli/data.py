"""Prepare text and tasks, and score answers."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

from typer import Argument, Option

from tupe.data import corpus as text
from tupe.data import questions, translation
from tupe.data.documents import find
from tupe.data.glue import prepare as sentences
from tupe.data.glue.tasks import TASKS, read_tasks
from tupe.data.manifest import IMPORTED, Manifest, Settings
from tupe.data.parallel import pool
from tupe.data.scores import tokens
from tupe.data.text import LANGUAGES, PROFILES, STAGES
from tupe.util import UserError, available_cores, labelled

CORPUS = Argument(help="Prepared corpus, or an imported model.")
FOLDER = Argument(help="Folder to write.")
LANGUAGE = Option("en", help="Language of the text.")
RULES = Option("squad", help="Rules by which answers are scored.")
WORKERS = Option(None, help="Processes; all cores by default.")


def counted(counts: dict[str, int]) -> str:
    """Write counts as "2 pairs, 1 dropped"."""
    return ", ".join(f"{number:,} {what}" for what, number in counts.items())


def prepare_corpus(
    inputs: list[Path] = Argument([], help="Text files or folders; de=INPUT in a corpus of many."),
    out: Path = Argument(help="Folder of the corpus."),
    books: list[Path] = Option([], help="Folder whose files are one document each."),
    languages: list[Path] = Option([], help="Folder whose entries are named by language."),
    profile: Literal["paper", "sentencepiece"] | None = Option(None, help="Which stages run."),
    without: str = Option("", metavar="A,B", help="Stages of the profile that are left out."),
    language: str | None = Option(None, help="Language of the rules for sentences and tokens."),
    vocab_size: int = Option(32_768, help="Symbols of the dictionary."),
    model_type: Literal["bpe", "unigram"] | None = Option(None, help="Kind of SentencePiece model."),
    vocab_alpha: float = Option(0.5, help="The vocabulary samples each language by its size to this power."),
    vocabulary: Path | None = Option(None, help="Corpus or imported model whose vocabulary is taken."),
    valid_documents: float = Option(0.01, help="Held-out documents: a number, or a fraction below 1."),
    max_tokens: int | None = Option(None, help="Longer lines are cut; 126, or what --vocabulary was cut to."),
    shards: int | None = Option(None, help="Folders of training data; one per gigabyte of text by default."),
    workers: int | None = WORKERS,
) -> None:
    """Prepare a corpus: cleaned text, a SentencePiece vocabulary, fairseq's binary data and a manifest.

    Inputs in several languages are written as LANGUAGE=INPUT. Each language gets a folder; all share one vocabulary.

    tupe prepare-corpus extracted/ data/wiki --profile paper
    """
    found = find(inputs, books, languages)
    many = bool(found[0].language)
    shared = Manifest.load(vocabulary) if vocabulary else None
    name = profile or ("sentencepiece" if many else "paper")
    stages, usual = PROFILES[name], LANGUAGES[name]
    if shared and shared.imported and not profile:  # as the model read its text
        name, stages, usual = IMPORTED, shared.settings.stages, shared.settings.language
    left_out = set(filter(None, without.split(",")))
    for stage in left_out - {*STAGES}:
        raise UserError(f"'{stage}' is not a stage. Choose from {', '.join(STAGES)}.")
    settings = Settings(
        profile=name,
        stages=tuple(stage for stage in STAGES if stage in {*stages} - left_out),
        language=language or usual,
        vocab_size=vocab_size,
        model_type=model_type or ("unigram" if many else "bpe"),
        valid_documents=valid_documents if valid_documents < 1 else int(valid_documents),
        shards=shards,
        max_tokens=max_tokens or (shared.settings.max_tokens if shared else 126),
        vocab_alpha=vocab_alpha,
    )
    if shared:
        taken = {name: getattr(shared.settings, name) for name in ("vocab_size", "model_type", "vocab_alpha")}
        settings = replace(settings, **taken, vocabulary=shared.checksums[shared.model.name])
    print("\n".join(text.report(text.prepare(out, found, settings, workers or available_cores(), shared))))


def prepare_glue(
    glue: Path = Argument(help="GLUE's download: CoLA/train.tsv and so on; or files of your own."),
    corpus: Path = CORPUS,
    names: list[str] = Argument([], metavar="TASK", help="Tasks; all in GLUE by default."),
    out: Path = Argument(help="Folder that gets a folder per task."),
    tasks: Path | None = Option(None, help="YAML file of tasks of your own, whose files are in GLUE."),
    workers: int | None = WORKERS,
) -> None:
    """Prepare tasks of GLUE, or of your own, with the text processing and vocabulary of a corpus.

    tupe prepare-glue glue_data data/wiki CoLA STS-B data/glue
    """
    known = read_tasks(tasks, glue) if tasks else TASKS
    chosen = [known[name] for name in names] or [task for task in known.values() if sentences.present(task, glue)]
    if not names and len(chosen) < len(known):
        print(f"not in {glue}: {', '.join(name for name, task in known.items() if task not in chosen)}")
    with pool(workers or available_cores()) as map_:
        for line in sentences.prepare(chosen, glue, Manifest.load(corpus), out, map_):
            print(line, flush=True)
    print(f"data: {out}")


def prepare_qa(
    files: list[str] = Argument(metavar="SPLIT=FILE", help="JSON of SQuAD's form."),
    corpus: Path = CORPUS,
    out: Path = FOLDER,
    rules: Literal["squad", "mlqa"] = RULES,
    language: str = LANGUAGE,
    workers: int | None = WORKERS,
) -> None:
    """Prepare extractive question answering (SQuAD v1.1, MLQA, XQuAD, TyDiQA-GoldP) with the vocabulary of a corpus.

    The splits are train, valid, valid1, ..., test, and test-de, test-fr, ... of a language. Files may be compressed
    (.xz, .gz, .bz2).

    tupe prepare-qa train=train-v1.1.json valid=dev-v1.1.json test-de=xquad.de.json data/wiki data/squad
    """
    with pool(workers or available_cores()) as map_:
        reports = questions.prepare(dict(labelled(files)), Manifest.load(corpus), out, rules, language, map_)
    for split, report in reports.items():
        print(f"{split:<8} {report['kept']:,} kept: {counted(report['counts'])}")
    print(f"data: {out}")


def prepare_translation(
    source: str = Argument(help="Language that is translated, as its files end: en."),
    target: str = Argument(help="Language of the translations: de."),
    out: Path = FOLDER,
    train: str = Option(help="Training data without the ending: data/train."),
    valid: str = Option(help="Validation data."),
    test: list[str] = Option([], help="Test data; the second becomes test1."),
    vocab_size: int = Option(32_000, help="Symbols of both languages."),
    model_type: Literal["bpe", "unigram"] = Option("bpe", help="Kind of SentencePiece model."),
    lower_case: bool = Option(False, "--lower-case", help="Fold case in the SentencePiece model."),
    max_tokens: int = Option(250, help="Tokens of the longest training side."),
    max_ratio: float = Option(1.5, help="Highest ratio of the lengths of a training pair."),
    workers: int | None = WORKERS,
) -> None:
    """Prepare parallel text: one joint SentencePiece model, fairseq's binary data and a manifest.

    Training pairs are cleaned by length and ratio; validation and test data stay as they are. Files may be compressed
    (.xz, .gz, .bz2).

    tupe prepare-translation en de OUT --train data/train --valid data/val --test data/test_2016
    """
    settings = translation.Settings((source, target), vocab_size, model_type, lower_case, max_tokens, max_ratio)
    prefixes = {"train": [train], "valid": [valid], "test": test}
    with pool(workers or available_cores()) as map_:
        content = translation.prepare(out, prefixes, settings, map_)
    for name, counts in content["splits"].items():
        print(f"{name:<6} {counted(counts)}")
    print(f"data: {out}")


def qa_score(
    reference: Path = Argument(help="Questions with their answers, JSON of SQuAD's form."),
    predictions: Path = Argument(help="JSON with a text for each id."),
    rules: Literal["squad", "mlqa"] = RULES,
    language: str = LANGUAGE,
) -> None:
    """Score answers by the official rules of SQuAD or MLQA: exact match and F1 in percent, as JSON.

    XQuAD and TyDiQA-GoldP are scored by SQuAD's rules. Files may be compressed (.xz, .gz, .bz2).
    """
    result, said = questions.score_files(reference, predictions, tokens(rules, language))
    if said:
        print(f"warning: {said}", file=sys.stderr)
    print(json.dumps(result))
