"""Prepare a corpus."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from typer import Argument, Option

from tupe.data import corpus as text
from tupe.data.documents import find
from tupe.data.manifest import IMPORTED, Manifest, Settings
from tupe.data.text import LANGUAGES, PROFILES, STAGES
from tupe.util import UserError


def prepare_corpus(
    inputs: list[Path] = Argument([], help="Text files or folders."),
    out: Path = Argument(help="Folder of the corpus."),
    books: list[Path] = Option([], help="Folder whose files are one document each."),
    languages: list[Path] = Option([], help="Folder of files and folders named by language: de.txt.xz, de/."),
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
    workers: int = Option(0, help="Processes; all cores by default."),
) -> None:
    """Prepare a corpus: cleaned text, a SentencePiece vocabulary, fairseq's binary data and a manifest.

    With --languages each language gets a folder; all share one vocabulary.

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
    print("\n".join(text.report(text.prepare(out, found, settings, workers, shared))))
